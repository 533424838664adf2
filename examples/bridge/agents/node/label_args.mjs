#!/usr/bin/env node
// Suggests labels for an issue. Reads its parameters from the command line alone.
//
// config.yaml says which parameter is which option. Stdin holds all of them as well, but
// nobody has to read it.

import process from "node:process";
import { parseArgs } from "node:util";

const SIGNS = {
  bug: ["crash", "crashes", "error", "fails", "broken"],
  documentation: ["docs", "readme", "typo"],
  performance: ["slow", "memory", "timeout"],
  question: ["how", "why", "what"],
};

function suggest(title) {
  const words = new Set(title.toLowerCase().match(/[a-z]+/g));
  const found = Object.keys(SIGNS).filter((label) => SIGNS[label].some((word) => words.has(word)));
  return found.length > 0 ? found : ["triage"];
}

function options() {
  const { values } = parseArgs({
    options: {
      repo: { type: "string" },
      issue: { type: "string" },
      title: { type: "string", default: "" },
      "dry-run": { type: "boolean", default: false }, // false is no option at all
    },
  });
  if (!values.repo || !/^[0-9]+$/.test(values.issue ?? "")) {
    throw new Error("want --repo OWNER/NAME --issue NUMBER");
  }
  return values;
}

try {
  const { repo, issue, title, "dry-run": dryRun } = options();
  console.error(`looking at issue ${issue}`);
  const result = { repo, issue: Number(issue), labels: suggest(title), dry_run: dryRun };
  console.log(JSON.stringify({ status: "success", result }));
} catch (error) {
  // Without this, stderr, which is shown as the error, would be a stack trace.
  console.error(error.message);
  process.exitCode = 2;
}
