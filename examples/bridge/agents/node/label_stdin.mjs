#!/usr/bin/env node
// Suggests labels for an issue. Reads its parameters from stdin alone.

import process from "node:process";
import { text } from "node:stream/consumers";

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

function answer(params) {
  for (const name of ["repo_name", "issue_number"]) {
    if (!(name in params)) {
      // What an agent says itself is its answer, with exit code 0. Another exit code is for
      // when it could not say anything: it is tried again where retries are set.
      return { status: "error", error: `${name} is missing` };
    }
  }
  // Stdout is for the answer alone: console.error, not console.log.
  console.error(`looking at issue ${params.issue_number}`);
  return {
    status: "success",
    result: {
      repo: params.repo_name,
      issue: params.issue_number,
      labels: suggest(params.title ?? ""),
      dry_run: params.dry_run ?? true,
    },
  };
}

console.log(JSON.stringify(answer(JSON.parse(await text(process.stdin)))));
