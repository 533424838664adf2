#!/usr/bin/env node
// Counts lines and words of files, and speaks protocol 1.1 as it does so.
//
// It says how far it is, hands out each part of its answer as it has it, reads the files
// through Airlock (so policy, consent and the record hold for them), asks a question, and
// stops when it is told to. The class below is all that the protocol takes: copy it.

import process from "node:process";
import { createInterface } from "node:readline";

// Airlock wants the agent to end: two seconds later it is ended.
class Canceled extends Error {}

// The other side of stdin and stdout.
class Airlock {
  #waiting = new Map(); // by id: who waits for an answer
  #canceled = null;
  #lastID = 0;
  #lines = createInterface({ input: process.stdin });

  // The parameters are the first line: a line, not all of stdin, which stays open in 1.1.
  static start() {
    const airlock = new Airlock();
    return new Promise((resolve, reject) => {
      airlock.#lines.on("line", (line) => {
        if (airlock.params !== undefined) {
          airlock.#heard(JSON.parse(line));
          return;
        }
        const { _airlock: about = { protocol: "1.0", features: [] }, ...params } = JSON.parse(line);
        Object.assign(airlock, { about, params });
        resolve(airlock);
      });
      airlock.#lines.on("close", () => {
        reject(new Error("there are no parameters on stdin"));
        airlock.#end("stdin was closed");
      });
    });
  }

  #heard(message) {
    if (message.type === "cancel") {
      this.#end(message.reason ?? "canceled");
      return;
    }
    this.#waiting.get(message.id)?.resolve(message);
    this.#waiting.delete(message.id);
  }

  #end(reason) {
    this.#canceled ??= reason;
    for (const { reject } of this.#waiting.values()) {
      reject(new Canceled(reason));
    }
    this.#waiting.clear();
  }

  #say(message) {
    process.stdout.write(JSON.stringify(message) + "\n");
  }

  #answer(request) {
    this.check();
    const id = ++this.#lastID;
    this.#say({ ...request, id });
    return new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }));
  }

  // Throws Canceled where Airlock has said so. Worth a call in every long loop.
  check() {
    if (this.#canceled !== null) {
      throw new Canceled(this.#canceled);
    }
  }

  progress(message, done, total) {
    this.#say({ type: "progress", message, done, total });
  }

  partial(data) {
    this.#say({ type: "partial", data });
  }

  // Makes a call and gives its result: ok, stdout, stderr, meta.
  async call(tool, action, args) {
    const message = await this.#answer({ type: "call", tool, action, args });
    if (message.type === "error") { // the call itself was not right
      return { ok: false, stdout: "", stderr: message.error, meta: {} };
    }
    return message;
  }

  // Asks the person. Where there is none, the answer is the default.
  async ask(question, choices, fallback) {
    const message = await this.#answer({ type: "ask", question, choices, default: fallback });
    return message.answer ?? fallback;
  }

  // Gives the answer, and lets go of stdin, which would keep the program running.
  result(answer) {
    this.#say({ type: "result", result: answer });
    this.close();
  }

  close() {
    this.#lines.removeAllListeners("close").close();
    process.stdin.destroy();
  }
}

function look(path, result) {
  if (!result.ok) {
    return { file: path, error: result.stderr };
  }
  const words = result.stdout.split(/\s+/).filter((word) => word !== "");
  return { file: path, lines: result.stdout.split("\n").length - 1, words: words.length };
}

const sum = (found, count) => found.reduce((total, one) => total + (one[count] ?? 0), 0);

const airlock = await Airlock.start();
if (airlock.about.protocol !== "1.1") {
  console.log(JSON.stringify({ status: "error", error: 'want protocol: "1.1" in config.yaml' }));
  airlock.close();
} else {
  const { files } = airlock.params;
  const found = [];
  try {
    for (const [done, path] of files.entries()) {
      airlock.check();
      airlock.progress(`reading ${path}`, done, files.length);
      found.push(look(path, await airlock.call("fs.read_file", "read", { path })));
      airlock.partial(found.at(-1));
    }
    const form = await airlock.ask("How shall the survey be put?", ["list", "sum"], "list");
    const result = form === "sum" ? { lines: sum(found, "lines"), words: sum(found, "words") } : found;
    airlock.result({ status: "success", result });
  } catch (error) {
    if (!(error instanceof Canceled)) {
      throw error;
    }
    airlock.result({ status: "error", error: `ended early: ${error.message}`, result: found });
  }
}
