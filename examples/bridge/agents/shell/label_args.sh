#!/bin/sh
# Suggests labels for an issue. Reads its parameters from the command line alone, and needs
# nothing but a shell and tr.
set -euf

fail() {
	printf '%s\n' "$1" >&2
	exit 2
}

repo='' issue='' title='' dry_run=false # false is no option at all
while [ $# -gt 0 ]; do
	case $1 in
	# A value that begins with - comes as --title=-x.
	--repo=* | --issue=* | --title=*) name=${1%%=*} value=${1#*=} ;;
	--repo | --issue | --title)
		[ $# -gt 1 ] || fail "$1 needs a value"
		name=$1 value=$2
		shift
		;;
	--dry-run) dry_run=true && shift && continue ;;
	*) fail "there is no option $1" ;;
	esac
	case $name in
	--repo) repo=$value ;;
	--issue) issue=$value ;;
	--title) title=$value ;;
	esac
	shift
done

# What is put into the answer is looked at first: printf does not make JSON, and these
# characters need nothing made of them.
case $repo in
'' | *[!A-Za-z0-9_./-]*) fail 'want --repo OWNER/NAME' ;;
esac
case $issue in
'' | 0* | *[!0-9]*) fail 'want --issue NUMBER' ;;
esac

words=" $(printf '%s' "$title" | LC_ALL=C tr 'A-Z' 'a-z' | LC_ALL=C tr -cs 'a-z' ' ') "
labels=''
suggest() { # LABEL SIGN…
	label=$1
	shift
	for sign; do
		case $words in
		*" $sign "*) labels="$labels${labels:+,}\"$label\"" && return ;;
		esac
	done
}
suggest bug crash crashes error fails broken
suggest documentation docs readme typo
suggest performance slow memory timeout
suggest question how why what

echo "looking at issue $issue" >&2
printf '{"status":"success","result":{"repo":"%s","issue":%s,"labels":[%s],"dry_run":%s}}\n' \
	"$repo" "$issue" "${labels:-\"triage\"}" "$dry_run"
