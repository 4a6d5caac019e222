// The session of this browser: how it begins, whose it is, and how it ends.
import { el, fill } from "./dom.js";

const SESSION = "/api/v1/session";

/** Exchange the token of the address, if it has one, for a session; false for a wrong token. */
export async function entered() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token === null) return true;
  history.replaceState(null, "", location.pathname + location.search);
  return (await open(token))?.ok ?? false;
}

/** Whose session it is, "" for the user of the machine, and whether a token of the cluster opens one. */
export async function look() {
  const reply = await fetch(SESSION).catch(() => null);
  const said = await reply?.json().catch(() => null); // 204 has no body
  return { viewer: said?.viewer ?? "", byToken: said?.signIn === "token" };
}

function open(token) {
  return fetch(SESSION, { method: "POST", body: JSON.stringify({ token }) }).catch(() => null);
}

/** End the session; pages ask for a token again. */
export function leave() {
  return fetch(SESSION, { method: "DELETE" }).catch(() => null);
}

/** A form that asks for a token of the cluster; `entered` is called once it opened a session. */
export function signInForm(entered) {
  const field = el("input", { id: "token", type: "password", autocomplete: "off", required: "" });
  const problem = el("p", { class: "problem", role: "alert" });
  async function send(event) {
    event.preventDefault();
    fill(problem, []);
    const reply = await open(field.value.trim());
    field.value = "";
    if (reply?.ok) entered();
    else if (reply?.status === 401) fill(problem, ["The cluster does not know this token, or it has expired."]);
    else fill(problem, ["The cluster does not answer: the token could not be checked."]);
  }
  return el(
    "form",
    { class: "sign-in", submit: send },
    el("label", { for: "token" }, "Bearer token of the cluster"),
    field,
    el("button", { type: "submit" }, "Sign in"),
    problem,
    el("p", {}, "For a service account: ", el("code", {}, "kubectl create token NAME -n NAMESPACE")),
  );
}
