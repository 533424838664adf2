#!/bin/sh
# Suggests labels for an issue. Reads its parameters from stdin alone, which takes jq: a
# shell cannot read JSON by itself, and what looks as if it could fails on the first quote.
set -eu

command -v jq >/dev/null || {
	echo 'jq is not installed' >&2
	exit 1
}

# All of the answer is made in jq, so that no value has to pass through the shell, where
# somebody would forget to quote it.
exec jq --compact-output '
	def signs: {
		bug: ["crash", "crashes", "error", "fails", "broken"],
		documentation: ["docs", "readme", "typo"],
		performance: ["slow", "memory", "timeout"],
		question: ["how", "why", "what"]
	};
	def suggest: ascii_downcase | [scan("[a-z]+")] as $words
		| [signs | to_entries[] | select(any(.value[]; IN($words[]))) | .key]
		| if . == [] then ["triage"] else . end;
	if has("repo_name") and has("issue_number") then
		{status: "success", result: {
			repo: .repo_name, issue: .issue_number, labels: (.title // "" | suggest),
			dry_run: (if has("dry_run") then .dry_run else true end)
		}}
	else
		{status: "error", error: "repo_name or issue_number is missing"}
	end'
