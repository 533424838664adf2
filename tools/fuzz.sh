#!/bin/sh
# Runs every fuzz target of the module for FUZZTIME, one after the other. The targets
# are found, not listed: one that is added is run.
set -u
GO=${GO:-go}
FUZZTIME=${FUZZTIME:-10s}
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT TERM

# Making an interesting input smaller is tried ten times only: the engine would go on for
# a minute with each where what is covered differs from run to run, and look at nothing new.
fuzz() { # package, target
	$GO test -run '^$' -fuzz "^$2\$" -fuzztime "$FUZZTIME" -fuzzminimizetime=10x "$1" >"$log" 2>&1
}

# A target that looks at fewer inputs than this has not been fuzzed, whatever it says.
least=1000
case $FUZZTIME in *x) least=0 ;; esac

executed() { # by the fuzzing that the log is of
	n=$(grep -o 'execs: [0-9]*' "$log" | tail -n 1)
	echo "${n#execs: }" | grep . || echo 0
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
		if [ $status -eq 0 ] && [ "$(executed)" -lt $least ]; then
			echo "$dir $target: $(executed) inputs in $FUZZTIME; once more"
			fuzz "$dir" "$target"
			status=$?
			if [ $status -eq 0 ] && [ "$(executed)" -lt $least ]; then
				echo "$dir $target: again only $(executed) inputs, of $least at least"
				status=1
			fi
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
