#!/usr/bin/env node
// Suggests labels for an issue. Reads the command line, and stdin for what is not there.
//
// So it can be used by hand as well:
//
//     label_hybrid.mjs --repo a/b --issue 7 --title "It crashes" </dev/null

import process from "node:process";
import { text } from "node:stream/consumers";
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

async function parameters() {
  const { values } = parseArgs({
    options: {
      repo: { type: "string" },
      issue: { type: "string" },
      title: { type: "string" },
      "dry-run": { type: "boolean" },
    },
  });
  const input = process.stdin.isTTY ? "" : (await text(process.stdin)).trim();
  const params = input === "" ? {} : JSON.parse(input);
  return {
    repo_name: values.repo ?? params.repo_name,
    issue_number: values.issue === undefined ? params.issue_number : Number(values.issue),
    title: values.title ?? params.title ?? "",
    dry_run: values["dry-run"] ?? params.dry_run ?? true,
  };
}

function answer(params) {
  for (const name of ["repo_name", "issue_number"]) {
    if (params[name] === undefined) {
      return { status: "error", error: `${name} is missing` };
    }
  }
  console.error(`looking at issue ${params.issue_number}`);
  return {
    status: "success",
    result: {
      repo: params.repo_name,
      issue: params.issue_number,
      labels: suggest(params.title),
      dry_run: params.dry_run,
    },
  };
}

try {
  console.log(JSON.stringify(answer(await parameters())));
} catch (error) {
  console.error(error.message); // not a stack trace: stderr is shown as the error
  process.exitCode = 2;
}
