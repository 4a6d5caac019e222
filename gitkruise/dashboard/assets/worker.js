// The SharedWorker that holds the one stream of all tabs: a browser opens only six to a server.
import { Feed } from "./feed.js";

const feed = new Feed();

self.onconnect = (event) => {
  const port = event.ports[0];
  port.onmessage = (message) => feed.hear(port, message.data);
};
