#!/bin/sh
# Runs every fuzz target of the module for FUZZTIME, as many at a time as there are
# processors (FUZZJOBS), each on one. The targets are found, not listed: one that is added
# is run.
#
#   fuzz.sh              all of them
#   fuzz.sh DIR TARGET   that one
#
# Unless FUZZTIME is set, it is ten seconds, or less where all of them together would fuzz
# for more than FUZZTOTAL seconds (200), but never less than three: the more targets there
# are, the less each one gets, and check stays bounded.
set -u
GO=${GO:-go}
FUZZTIME=${FUZZTIME:-}
FUZZTOTAL=${FUZZTOTAL:-200}
FUZZJOBS=${FUZZJOBS:-$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)}
export GO FUZZTIME
own=$(mktemp -d) || exit 1
log=$own/log
trap 'rm -rf "$own"' EXIT
trap 'exit 130' INT TERM

# Making an interesting input smaller is tried ten times only: the engine would go on for
# a minute with each where what is covered differs from run to run, and look at nothing new.
fuzz() { # package, target, and what goes to the test itself
	package=$1 target=$2
	shift 2
	$GO test -run '^$' -fuzz "^$target\$" -fuzztime "$FUZZTIME" -fuzzminimizetime=10x -parallel 1 "$package" "$@" >"$log" 2>&1 || deadline
}

# Go's fuzzing engine, before 1.27, may call its own deadline a failure when the machine is slow (go.dev/issue/75804): with
# a line of its own and nothing else. A finding names an input, and a test's words stand behind a file's name.
deadline() {
	grep -q '^    context deadline exceeded$' "$log" && ! grep -Eq 'Failing input written|panic:|^ +--- FAIL|_test\.go:' "$log"
}

# A target that looks at fewer inputs than this has not been fuzzed, whatever it says: twenty
# a second, which the slowest of them does several times over, and on a busy machine still does.
least() {
	case $FUZZTIME in
	*[!0-9s]* | *x) echo 0 ;;
	*) echo $((20 * ${FUZZTIME%s})) ;;
	esac
}

executed() { # by the fuzzing that the log is of
	n=$(grep -o 'execs: [0-9]*' "$log" | tail -n 1)
	echo "${n#execs: }" | grep . || echo 0
}

one() { # package, target
	fuzz "$1" "$2"
	status=$?
	if [ $status -eq 0 ] && [ "$(executed)" -lt "$(least)" ]; then
		# What earlier runs found is gone through first, and may take all of the time.
		echo "$1 $2: $(executed) inputs in $FUZZTIME; once more, without those of earlier runs"
		fuzz "$1" "$2" -args -test.fuzzcachedir="$own/cache"
		status=$?
		if [ $status -eq 0 ] && [ "$(executed)" -lt "$(least)" ]; then
			echo "$1 $2: again only $(executed) inputs, of $(least) at least"
			status=1
		fi
	fi
	if [ $status -ne 0 ]; then
		cat "$log"
		echo "fuzz: FAILED: $1 $2" >&2
		return 1
	fi
	echo "$1 $2: $(grep '^fuzz: elapsed' "$log" | tail -n 1 | sed 's/^fuzz: //')"
}

if [ $# -eq 2 ]; then
	FUZZTIME=${FUZZTIME:-10s}
	one "$1" "$2"
	exit
fi

# The files of this system's tests, each behind its package. Only packages that hold a
# target are compiled.
files='{{$in := .Dir}}{{$pkg := .ImportPath}}{{range .TestGoFiles}}{{$pkg}} {{$in}}/{{.}}
{{end}}{{range .XTestGoFiles}}{{$pkg}} {{$in}}/{{.}}
{{end}}'
if ! files=$($GO list -f "$files" ./...); then
	echo "fuzz: FAILED: the packages cannot be listed" >&2
	exit 1
fi
targets=$(printf '%s\n' "$files" | while read -r package file; do
	[ -z "$file" ] || sed -n "s|^func \(Fuzz[A-Za-z0-9_]*\)(.*|$package \1|p" "$file"
done)
count=$(printf '%s\n' "$targets" | grep -c .)
if [ "$count" -eq 0 ]; then
	echo "fuzz: FAILED: there are no targets" >&2
	exit 1
fi
if [ -z "$FUZZTIME" ]; then
	each=$((FUZZTOTAL * FUZZJOBS / count))
	[ "$each" -le 10 ] || each=10
	[ "$each" -ge 3 ] || each=3
	FUZZTIME=${each}s
fi
failed=0
printf '%s\n' "$targets" | xargs -n 2 -P "$FUZZJOBS" sh "$0" || failed=1
echo "$count fuzz targets, $FUZZTIME each"
exit $failed
