# What airlock hook fish prints, for: airlock hook fish | source in config.fish.
# Taken out by removing that line; docs/shell.md says what it keeps, and where.
if status is-interactive; and test "$_airlock_hook" != "$fish_pid"
    set -g _airlock_hook $fish_pid
    set -g _airlock_last ''
    set -g _airlock_exit ''
    set -g _airlock_own ''
    set -g _airlock_file ''
    set -g _airlock_was 0
    # A line that begins with airlock or ai, after variables.
    set -g _airlock_ours '^\\s*(\\w+=\\S*\\s+)*(command\\s+)?\\\\?([^\\s;|&]*/)?(airlock|ai)([\\s;|&]|$)'
    set -e AIRLOCK_LAST_COMMAND
    set -e AIRLOCK_LAST_EXIT_CODE
    # Before version 4, history cannot be appended to.
    if test -n @FOLDER@; and string match -qr '^([4-9]|[1-9][0-9])\.' -- $version
        set -g _airlock_file @FOLDER@/history-$fish_pid-@TOKEN@
    end

    # After each command. Nothing is started, and nothing written. What the shell keeps out
    # of its history is not kept here.
    function _airlock_postexec --on-event fish_postexec
        set -l code $status
        set -l line "$argv[1]"
        set -l own "$_airlock_own"
        set -g _airlock_own ''
        set -g _airlock_was $code
        # Of a line that calls airlock after something, the exit code is that of what it
        # follows.
        switch "$own"
            case x
                return 0
            case '?*'
                set code $own
        end
        if string match -qr $_airlock_ours -- $line
            return 0
        end
        if _airlock_hides "$line"
            set line ''
        end
        set -g _airlock_last $line
        set -g _airlock_exit $code
    end

    # Whether the shell keeps a line out of its history.
    function _airlock_hides
        set -q fish_private_mode; and return 0
        string match -qr '^\s' -- "$argv[1]"; and return 0
        set -q fish_history; and test -z "$fish_history"; and return 0
        functions -q fish_should_add_to_history; and not fish_should_add_to_history "$argv[1]"; and return 0
        return 1
    end

    # Before each prompt: the lines that airlock left for the history. Nothing of them is
    # evaluated: printf turns \0nnn into a byte, and history append stores a word.
    function _airlock_prompt --on-event fish_prompt
        if test -n "$_airlock_file"; and test -s "$_airlock_file"; and test -f "$_airlock_file"; and test -O "$_airlock_file"; and not test -L "$_airlock_file"
            while read -l line
                set -l entry (printf '%b' $line | string collect --no-trim-newlines)
                test -n "$entry"; and builtin history append -- $entry
            end <$_airlock_file
            true >$_airlock_file
        end
    end

    # Runs airlock with what is known of the last command, in variables of that one process.
    function _airlock_run
        set -l code $status
        set -l line (status current-commandline 2>/dev/null | string collect)
        if test -z "$line"; or _airlock_hides "$line"
            set line ''
        end
        set -lx AIRLOCK_LINE (string sub -l 8193 -- "$line" | string collect)
        set -lx AIRLOCK_LINE_EXIT_CODE $code
        set -lx AIRLOCK_SHELL fish
        set -lx AIRLOCK_SHELL_PID $fish_pid
        set -lx AIRLOCK_SHELL_HISTORY (string replace -r '^.*/' '' -- $_airlock_file)
        set -lx AIRLOCK_LAST_COMMAND (string sub -l 8192 -- $_airlock_last | string collect)
        set -lx AIRLOCK_LAST_EXIT_CODE ''
        test -n "$AIRLOCK_LAST_COMMAND"; and set AIRLOCK_LAST_EXIT_CODE $_airlock_exit
        if test -z "$line"; and test "$code" != "$_airlock_was"
            set AIRLOCK_LAST_COMMAND ''
            set AIRLOCK_LAST_EXIT_CODE ''
        end
        if test -z "$_airlock_own"
            set -g _airlock_own $code
            if test -z "$line"; or string match -qr $_airlock_ours -- "$line"
                set -g _airlock_own x
            end
        end
        @AIRLOCK@ $argv
    end
    function airlock
        _airlock_run $argv
    end
    if not type -q ai
        function ai
            _airlock_run ai $argv
        end
    else if not functions -q ai; and not builtin -q ai; and test (command -s ai)"" -ef @AIRLOCK@
        # A link to airlock, where PATH has it first, would know nothing.
        function ai
            _airlock_run ai $argv
        end
    end
end
