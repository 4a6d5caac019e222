// States of objects: their order, and a drawing for each. The words are the server's.

/** Worst first, as in gitkruise.model.gitops.unit_state. */
export const STATES = [
  "Rejected",
  "Stuck",
  "Drifted",
  "Unknown",
  "Rolling",
  "Waiting",
  "Paused",
  "Held",
  "Done",
];

/** States in which somebody has to act. */
export const NEEDS_YOU = new Set(["Rejected", "Stuck", "Drifted", "Unknown"]);

const CROSS = "M4 4L12 12M12 4L4 12";
export const GLYPHS = {
  Rejected: "M8 2V10M8 13V14",
  Stuck: CROSS,
  Drifted: "M3 6H13M3 10H13M11 3L5 13",
  Unknown: "M5 6A3 3 0 1 1 8 9V10M8 13V14",
  Rolling: "M8 2A6 6 0 1 1 2 8M8 2L5 0M8 2L6 5",
  Waiting: "M8 2A6 6 0 1 0 8.01 2M8 5V8L11 9",
  Paused: "M5 3V13M11 3V13",
  Held: "M3 3V13M13 3V13M6 8H10",
  Done: "M3 8L7 12L13 4",
};

export function rank(state) {
  const found = STATES.indexOf(state);
  return found < 0 ? STATES.length : found;
}

export function plural(count, word, many = `${word}s`) {
  return `${count} ${count === 1 ? word : many}`;
}

/** "12 s", "6 m", "3 h" or "2 d" of milliseconds. */
export function span(milliseconds) {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["m", 60]])
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
  return `${seconds} s`;
}

/** The time of day of an instant in the browser's zone, with the date of another day. */
export function clock(instant) {
  const then = new Date(instant);
  if (then.toDateString() !== new Date().toDateString()) return moment(instant);
  return then.toLocaleTimeString([], { hour12: false });
}

/** The date and time of an instant in the browser's zone; "" without one. */
export function moment(instant) {
  if (!instant) return "";
  return new Date(instant).toLocaleString([], { dateStyle: "medium", timeStyle: "medium", hour12: false });
}

/** Where the records of the clusters come from, and how old those of status branches are. */
export function written(records) {
  const all = Object.entries(records);
  const read = all.filter(([, time]) => time !== "").map(([cluster, time]) => `${cluster} ${moment(time)}`);
  const heard = all.filter(([, time]) => time === "").map(([cluster]) => cluster);
  const parts = [
    read.length > 0 ? `Records of the status branches: ${read.join(", ")}` : "",
    heard.length > 0 ? `Records of the running controller: ${heard.join(", ")}` : "",
  ];
  return parts.filter(Boolean).join(" · ");
}

/** Why a question has no answer: `missing` where it is about nothing that is there. */
export async function unanswered(reply, missing) {
  if (!reply) return "the dashboard does not answer";
  const said = await reply.json().catch(() => null);
  if (reply.status === 404 && !said?.message) return missing;
  if (!said?.message) return `the dashboard answered ${reply.status}`;
  return said.next ? `${said.message}; next: ${said.next}` : said.message;
}
