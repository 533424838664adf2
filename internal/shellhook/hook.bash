# What airlock hook bash prints, for: eval "$(airlock hook bash)" in ~/.bashrc.
# Taken out by removing that line; docs/shell.md says what it keeps, and where.
if [[ $- == *i* && -n ${BASH_VERSION-} && ${_airlock_hook-} != "$$" ]]; then
_airlock_all=${-//[!a]/}
\set +a # what is made here is not for other programs
_airlock_hook=$$
_airlock_dir=@FOLDER@
_airlock_token=@TOKEN@
_airlock_ran=0 _airlock_own='' _airlock_seen='' _airlock_entry='' _airlock_exit='' _airlock_kept='' _airlock_past='' _airlock_was=0
\unset AIRLOCK_LAST_COMMAND AIRLOCK_LAST_EXIT_CODE

# Before each prompt. The history itself holds the command; what is kept here are the
# number of its entry and the exit code. Nothing is started, and nothing written.
function _airlock_prompt {
  \builtin local _airlock_status="$?" _airlock_now='\!'
  if [[ ! -o history ]]; then
    _airlock_seen='' _airlock_entry='' _airlock_exit=''
  elif (( BASH_VERSINFO[0] < 5 )); then
    [[ -n $_airlock_own ]] || _airlock_exit=$_airlock_status _airlock_kept=''
  else
    _airlock_now=${_airlock_now@P}
    if [[ -z $_airlock_seen ]]; then
      # The first prompt. The number is 1 both for one entry and for none.
      if [[ $_airlock_now == 1 && -z $(HISTTIMEFORMAT='' \builtin history 1) ]]; then _airlock_now=0; fi
    elif [[ $_airlock_own == [Lx]* ]]; then
      # What airlock was called after, in that line, had this exit code.
      if [[ $_airlock_own == L* ]]; then _airlock_past="$_airlock_entry:$_airlock_exit $_airlock_past" _airlock_entry=$_airlock_now _airlock_exit=${_airlock_own#L}; fi
    elif [[ ${PS0-} == *_airlock_ran* && $_airlock_ran == 0 ]]; then
      : # nothing ran: an empty line, or one that was given up
    elif [[ $_airlock_now != "$_airlock_seen" ]]; then
      _airlock_past="$_airlock_entry:$_airlock_exit ${_airlock_past:0:100}"
      _airlock_entry=$_airlock_now _airlock_exit=$_airlock_status
    elif [[ $_airlock_ran != 0 ]]; then
      # It left no entry of its own: the same command once more, or one that is not kept.
      if [[ $_airlock_entry == "$_airlock_now" && ${HISTCONTROL-} == *@(dups|both)* ]]; then
        _airlock_exit=$_airlock_status
      elif [[ ${HISTCONTROL-} == *erasedups* && $HISTCONTROL != *@(space|both)* ]]; then
        _airlock_entry=$_airlock_now _airlock_exit=$_airlock_status
      else
        _airlock_entry='' _airlock_exit='' _airlock_past=''
      fi
    fi
    _airlock_seen=$_airlock_now
  fi
  _airlock_ran=0 _airlock_own='' _airlock_was=$_airlock_status
  if [[ -n $_airlock_dir && -s $_airlock_dir/history-$$-$_airlock_token ]]; then _airlock_take; fi
  \builtin return "$_airlock_status"
}

# Takes the lines that airlock left for the history. Nothing of them is evaluated: printf
# turns \0nnn into a byte, and history -s stores a word.
function _airlock_take {
  \builtin local _airlock_file="$_airlock_dir/history-$$-$_airlock_token" _airlock_line='' _airlock_n=0 _airlock_now='\!'
  [[ -f $_airlock_file && -O $_airlock_file && ! -L $_airlock_file ]] || \builtin return 0
  while IFS= \builtin read -r _airlock_line && (( _airlock_n++ < 1000 )); do
    \builtin printf -v _airlock_line '%b' "$_airlock_line"
    if [[ -n $_airlock_line ]]; then \builtin history -s -- "$_airlock_line"; fi
  done <"$_airlock_file"
  : >|"$_airlock_file"
  if [[ -n $_airlock_seen ]]; then _airlock_seen=${_airlock_now@P}; fi
  \builtin return 0
}

# Runs airlock with what is known of the last command, in variables of that one process.
function _airlock_run {
  \builtin local _airlock_code="$?" _airlock_line='' _airlock_shift=0 _airlock_text='' _airlock_k="$_airlock_entry" _airlock_now='\!' _airlock_last='' _airlock_head=''
  _airlock_read
  if (( BASH_VERSINFO[0] < 5 )); then
    # The entry before this line; and the same again if that was airlock itself.
    if [[ -z $_airlock_kept ]]; then
      _airlock_kept=$(HISTTIMEFORMAT='' \builtin history 2 2>/dev/null) || :
      _airlock_kept=${_airlock_kept:0:16384}
      if [[ $_airlock_kept =~ ^\ *([0-9]+) ]]; then
        _airlock_k=${BASH_REMATCH[1]}
        _airlock_cut
        _airlock_kept=$_airlock_text
      fi
    fi
    _airlock_text=$_airlock_kept
  elif [[ -n $_airlock_k ]] && (( _airlock_ran <= 1 )); then
    # Entries are numbered anew where the history was read anew since: what counts is how
    # far back the entry is. The history says what number its last entry has.
    _airlock_now=${_airlock_now@P}
    _airlock_last=$(HISTTIMEFORMAT='' \builtin history 1 2>/dev/null) || :
    if [[ ${_airlock_last:0:32} =~ ^\ *([0-9]+) ]]; then _airlock_last=${BASH_REMATCH[1]}; else _airlock_last=$_airlock_now; fi
    if (( _airlock_now != _airlock_seen && _airlock_now != _airlock_seen + 1 )); then
      (( _airlock_k += _airlock_now - _airlock_seen - 1, 1 ))
    fi
    (( _airlock_k += _airlock_last - _airlock_now, 1 ))
    (( _airlock_shift = _airlock_k - _airlock_entry, 1 ))
    _airlock_find
    if [[ ${HISTCONTROL-} == *erasedups* && $_airlock_k == "$_airlock_last" ]] && _airlock_ours "$_airlock_text"; then
      # This line took an earlier one like it out of the history.
      (( _airlock_k--, _airlock_entry--, 1 ))
      _airlock_find
    fi
    # A pipeline that began with airlock could not say so: the one before it is meant.
    while _airlock_ours "$_airlock_text"; do
      _airlock_text='' _airlock_entry='' _airlock_exit=''
      if [[ ${HISTCONTROL-} == *erasedups* || $_airlock_past != [0-9]*:*' '* ]]; then \builtin break; fi
      _airlock_entry=${_airlock_past%%:*} _airlock_past=${_airlock_past#*:}
      _airlock_exit=${_airlock_past%%' '*} _airlock_past=${_airlock_past#*' '}
      (( _airlock_k = _airlock_entry + _airlock_shift, 1 ))
      _airlock_find
    done
  fi
  if [[ -z $_airlock_line && $_airlock_code != "$_airlock_was" ]]; then
    _airlock_text='' # something has run in this line, which is not known
  fi
  if [[ $BASH_SUBSHELL != 0 || $_airlock_own == L* ]]; then
    :
  elif [[ -z $_airlock_line ]] || _airlock_ours "$_airlock_line"; then
    _airlock_own=x
  else
    _airlock_own=L$_airlock_code
  fi
  AIRLOCK_LINE=${_airlock_line:0:8193} AIRLOCK_LINE_EXIT_CODE=$_airlock_code \
    AIRLOCK_SHELL=bash AIRLOCK_SHELL_PID=$$ AIRLOCK_SHELL_HISTORY=${_airlock_dir:+history-$$-$_airlock_token} \
    AIRLOCK_LAST_COMMAND=${_airlock_text:0:8192} AIRLOCK_LAST_EXIT_CODE=${_airlock_text:+$_airlock_exit} \
    @AIRLOCK@ "$@"
}

# Reads this line, where it is the history's last entry.
function _airlock_read {
  if [[ ! -o history ]] || ! \builtin shopt -q cmdhist; then \builtin return 0; fi
  _airlock_line=$(HISTTIMEFORMAT='' \builtin history 1 2>/dev/null) || :
  if [[ ${_airlock_line:0:32} =~ ^\ *[0-9]+[\ *]\  ]]; then
    _airlock_line=${_airlock_line:${#BASH_REMATCH}}
    _airlock_line=${_airlock_line:0:8193}
  else
    _airlock_line=''
  fi
  if (( BASH_VERSINFO[0] >= 5 )); then
    _airlock_now=${_airlock_now@P}
    _airlock_text=$_airlock_now _airlock_now='\!'
    if [[ $_airlock_text != "$_airlock_seen" ]]; then _airlock_text=''; \builtin return 0; fi
    _airlock_text=''
    # The same line once more, or a hidden one. The exit code tells that of airlock alone.
    if [[ ${HISTCONTROL-} != *@(dups|both)* ]] || _airlock_ours "$_airlock_line"; then _airlock_line=''; fi
  fi
  if [[ $_airlock_line != *@(airlock|ai)* ]]; then _airlock_line=''; fi
}

# Whether a line begins with airlock or ai, after variables.
function _airlock_ours {
  \builtin local _airlock_pattern='^[[:space:]]*([A-Za-z_][A-Za-z_0-9]*=[^[:space:]]*[[:space:]]+)*(command[[:space:]]+)?[\]?([^[:space:];|&]*/)?(airlock|ai)([[:space:];|&]|$)'
  [[ $1 =~ $_airlock_pattern ]]
}

# Finds entry k, where last is the number of the last.
function _airlock_find {
  _airlock_text=''
  if (( _airlock_k > 0 && _airlock_k <= _airlock_last )); then
    _airlock_kept=$(HISTTIMEFORMAT='' \builtin history "$(( _airlock_last - _airlock_k + 1 ))" 2>/dev/null) || :
    _airlock_kept=${_airlock_kept:0:16384}
    _airlock_cut
    _airlock_kept=''
  fi
}

# Takes entry k out of a list of the history's entries that begins with it.
function _airlock_cut {
  \builtin printf -v _airlock_head '%5d' "$_airlock_k"
  if [[ $_airlock_kept == "$_airlock_head"[\ *]\ * ]]; then
    _airlock_text=${_airlock_kept#"$_airlock_head"} _airlock_text=${_airlock_text:2}
    \builtin printf -v _airlock_head '\n%5d' "$(( _airlock_k + 1 ))"
    _airlock_text=${_airlock_text%%"$_airlock_head"[\ *]\ *}
  fi
}
function airlock { _airlock_run "$@"; }
if ! \builtin type ai >/dev/null 2>&1; then
  function ai { _airlock_run ai "$@"; }
elif ! \builtin alias ai >/dev/null 2>&1 && ! \builtin declare -F ai >/dev/null; then
  # A link to airlock, where PATH has it first, would know nothing.
  _airlock_kept=$PATH:
  while [[ -n $_airlock_kept ]]; do
    _airlock_text=${_airlock_kept%%:*} _airlock_kept=${_airlock_kept#*:}
    _airlock_text=${_airlock_text:-.}/ai
    if [[ -f $_airlock_text && -x $_airlock_text ]]; then
      if [[ $_airlock_text -ef @AIRLOCK@ ]]; then function ai { _airlock_run ai "$@"; }; fi
      \builtin break
    fi
  done
  _airlock_kept='' _airlock_text=''
fi

# PS0 is expanded when a line was read and before it runs: it counts, and shows nothing.
if \builtin shopt -q promptvars; then
  PS0='${BASH_VERSION:$((_airlock_ran=${_airlock_ran:-0}+1,0)):0}'"${PS0-}"
fi
# The && keeps both $? and set -e as they are for what follows, the word at the end $_.
if [[ $(\builtin declare -p PROMPT_COMMAND 2>/dev/null) == 'declare -a'* ]]; then
  PROMPT_COMMAND=('_airlock_prompt "$_" && : "$_"' "${PROMPT_COMMAND[@]}")
else
  PROMPT_COMMAND='_airlock_prompt "$_" && : "$_"'${PROMPT_COMMAND:+$'\n'$PROMPT_COMMAND}
fi
if [[ -n $_airlock_all ]]; then \set -a; fi
fi
