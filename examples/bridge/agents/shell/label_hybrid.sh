#!/bin/sh
# Suggests labels for an issue. Reads the command line, and stdin for what is not there;
# for stdin it needs jq.
#
# So it can be used by hand as well:
#
#     label_hybrid.sh --repo a/b --issue 7 --title "It crashes" </dev/null
set -euf

fail() {
	printf '%s\n' "$1" >&2
	exit 2
}

command -v jq >/dev/null || fail 'jq is not installed'

# Each option becomes an argument of jq's, which makes JSON of it, whatever it holds.
given='{}'
set_member() { # NAME VALUE
	given=$(printf '%s' "$given" | jq --compact-output --arg name "$1" --arg value "$2" '.[$name] = $value')
}
while [ $# -gt 0 ]; do
	case $1 in
	# A value that begins with - comes as --title=-x.
	--repo=* | --issue=* | --title=*) name=${1%%=*} value=${1#*=} ;;
	--repo | --issue | --title)
		[ $# -gt 1 ] || fail "$1 needs a value"
		name=$1 value=$2
		shift
		;;
	--dry-run) name=$1 value='' ;;
	*) fail "there is no option $1" ;;
	esac
	case $name in
	--repo) set_member repo_name "$value" ;;
	--issue) set_member issue_number "$value" ;;
	--title) set_member title "$value" ;;
	--dry-run) given=$(printf '%s' "$given" | jq --compact-output '.dry_run = true') ;;
	esac
	shift
done

input='{}'
[ -t 0 ] || input=$(cat)
printf '%s\n%s\n' "${input:-"{}"}" "$given" | jq --slurp --compact-output '
	def signs: {
		bug: ["crash", "crashes", "error", "fails", "broken"],
		documentation: ["docs", "readme", "typo"],
		performance: ["slow", "memory", "timeout"],
		question: ["how", "why", "what"]
	};
	def suggest: ascii_downcase | [scan("[a-z]+")] as $words
		| [signs | to_entries[] | select(any(.value[]; IN($words[]))) | .key]
		| if . == [] then ["triage"] else . end;
	.[0] + .[1]
	| if has("repo_name") and has("issue_number") then
		{status: "success", result: {
			repo: .repo_name, issue: (.issue_number | tonumber), labels: (.title // "" | suggest),
			dry_run: (if has("dry_run") then .dry_run else true end)
		}}
	else
		{status: "error", error: "repo_name or issue_number is missing"}
	end'
