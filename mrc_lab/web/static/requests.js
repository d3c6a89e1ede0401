// Actions: what is clicked goes to the server as a POST, and the command that does the same comes back.

import { byId } from "./elements.js";

export async function act(request) {
  let answer;
  try {
    const response = await fetch("actions", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(request) });
    answer = await response.json();
  } catch {
    answer = { error: "The server does not answer: nothing was done, or nobody knows." };
  }
  showOutcome(answer);
  return answer;
}

function showOutcome(answer) {
  const text = byId("done-text");
  const command = byId("done-command");
  text.className = answer.error ? "error" : "";
  text.textContent = answer.error ?? (answer.text || "Started.");
  command.hidden = !answer.command;
  if (answer.command) command.textContent = answer.command;
  if (!answer.error) setUndo(answer.undo);
}

export function setUndo(text) {
  const button = byId("undo");
  button.disabled = !text;
  button.title = text ? `Take back: ${text} (Ctrl+Z)` : "There is nothing to take back";
}
