// Actions: what is clicked goes to the server as a POST, and the command that does the same comes back.

import { byId } from "./elements.js";

const PATIENCE_MS = 700; // then the page says that it waits

export async function act(request) {
  let answer;
  const waiting = setTimeout(showWaiting, PATIENCE_MS);
  try {
    const response = await fetch("actions", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(request) });
    answer = await response.json();
  } catch {
    answer = { error: "The server does not answer: nothing was done, or nobody knows." };
  }
  clearTimeout(waiting);
  showOutcome(answer);
  return answer;
}

// A controller that is stopped or busy may take its time, and a click that shows nothing is clicked again.
function showWaiting() {
  byId("done-text").className = "";
  byId("done-text").textContent = "Waiting for the controller to answer …";
  byId("done-command").hidden = true;
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
