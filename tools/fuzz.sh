#!/bin/sh
# Runs every fuzz target of the module for FUZZTIME, one after the other. The targets
# are found, not listed: one that is added is run.
set -u
GO=${GO:-go}
FUZZTIME=${FUZZTIME:-10s}
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT TERM

fuzz() { # package, target
	$GO test -run '^$' -fuzz "^$2\$" -fuzztime "$FUZZTIME" -fuzzminimizetime=10x "$1" >"$log" 2>&1
}

count=0
failed=
# Only folders that hold a target are compiled.
dirs=$(find . -path './.*' -prune -o -name '*_test.go' -exec grep -l '^func Fuzz' {} + | xargs -r -n 1 dirname | sort -u)
for dir in $dirs; do
	if ! listed=$($GO test -list '^Fuzz' "$dir" 2>&1); then
		printf '%s\n' "$listed"
		failed="$failed $dir"
		continue
	fi
	for target in $(printf '%s\n' "$listed" | grep '^Fuzz'); do
		count=$((count + 1))
		fuzz "$dir" "$target"
		status=$?
		# Go's fuzzing engine may call its own deadline a failure when the machine is
		# slow. A finding always names an input; without one, look a second time.
		if [ $status -ne 0 ] && grep -q 'context deadline exceeded' "$log" && ! grep -q 'Failing input written' "$log"; then
			echo "$dir $target: the time ran out without a finding; once more"
			fuzz "$dir" "$target"
			status=$?
		fi
		if [ $status -ne 0 ]; then
			cat "$log"
			failed="$failed $dir:$target"
		else
			echo "$dir $target: $(grep '^fuzz: elapsed' "$log" | tail -n 1 | sed 's/^fuzz: //')"
		fi
	done
done
echo "$count fuzz targets, $FUZZTIME each"
if [ -n "$failed" ]; then
	echo "fuzz: FAILED:$failed" >&2
	exit 1
fi
