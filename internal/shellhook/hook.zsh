# What airlock hook zsh prints, for: eval "$(airlock hook zsh)" in ~/.zshrc.
# Taken out by removing that line; docs/shell.md says what it keeps, and where.
if [[ -o interactive && "${_airlock_hook-}" != "$$" ]]; then
'builtin' 'typeset' '-g' _airlock_hook="$$" _airlock_program=@AIRLOCK@ _airlock_dir=@FOLDER@ _airlock_token=@TOKEN@
# Whatever options the person has set, what follows is read, and later runs, with those of
# zsh. There is no single quote in it.
'builtin' 'emulate' 'zsh' '-o' 'no_aliases' '-c' '
typeset -g _airlock_text="" _airlock_last="" _airlock_exit="" _airlock_ran="" _airlock_own="" _airlock_was=0
unset AIRLOCK_LAST_COMMAND AIRLOCK_LAST_EXIT_CODE

# Before each command: what was typed.
function _airlock_preexec {
  _airlock_text=$1 _airlock_ran=1
  return 0
}

# Before each prompt: the exit code. Nothing is started, and nothing written.
function _airlock_precmd {
  local code=$?
  # Of a line that calls airlock after something, the exit code is that of what it follows.
  if [[ -n $_airlock_ran && $_airlock_own != x ]] && ! _airlock_ours "$_airlock_text"; then
    _airlock_last=$_airlock_text _airlock_exit=${_airlock_own:-$code}
  fi
  _airlock_was=$code
  _airlock_text="" _airlock_ran="" _airlock_own=""
  if [[ -n $_airlock_dir && -s $_airlock_dir/history-$$-$_airlock_token ]]; then _airlock_take; fi
  return 0
}

# Takes the lines that airlock left for the history. Nothing of them is evaluated: printf
# turns \0nnn into a byte, and print -s stores a word.
function _airlock_take {
  local file=$_airlock_dir/history-$$-$_airlock_token line="" n=0
  [[ -f $file && -O $file && ! -L $file ]] || return 0
  while (( n++ < 1000 )) && IFS= read -r line; do
    printf -v line "%b" "$line"
    if [[ -n $line ]]; then print -rs -- "$line"; fi
  done <"$file"
  : >|"$file"
  return 0
}

# Whether a line begins with airlock or ai, after variables.
function _airlock_ours {
  [[ "$1" == *(airlock|ai)* && "$1" =~ "^[[:space:]]*([A-Za-z_][A-Za-z_0-9]*=[^[:space:]]*[[:space:]]+)*(command[[:space:]]+)?[\\]?([^[:space:];|&]*/)?(airlock|ai)([[:space:];|&]|\$)" ]]
}

# Runs airlock with what is known of the last command, in variables of that one process. A
# command that is not in the history list is not given.
function _airlock_run {
  local code=$? text=$_airlock_last line=$_airlock_text
  # What the shell will not keep, or may not, is not given; then nothing may have run before.
  if [[ -n $line ]]; then
    if ! zmodload zsh/parameter 2>/dev/null || (( ${+functions[zshaddhistory]} || ${+zshaddhistory_functions} )); then
      line=""
    elif [[ -o hist_ignore_space && $line == [[:space:]]* ]]; then
      line=""
    fi
  fi
  [[ -n $line || $code == $_airlock_was ]] || text=""
  if [[ -n $text ]]; then
    zmodload zsh/parameter 2>/dev/null || text=""
    [[ "${history[(re)$text]-}" == "$text" ]] || text=""
  fi
  if [[ -z $_airlock_own ]]; then
    if [[ -z $line ]] || _airlock_ours "$line"; then _airlock_own=x; else _airlock_own=$code; fi
  fi
  AIRLOCK_LINE=${line[1,8193]} AIRLOCK_LINE_EXIT_CODE=$code \
    AIRLOCK_SHELL=zsh AIRLOCK_SHELL_PID=$$ AIRLOCK_SHELL_HISTORY=${_airlock_dir:+history-$$-$_airlock_token} \
    AIRLOCK_LAST_COMMAND=${text[1,8192]} AIRLOCK_LAST_EXIT_CODE=${text:+$_airlock_exit} \
    $_airlock_program "$@"
}
function airlock { _airlock_run "$@" }
if ! whence ai >/dev/null; then
  function ai { _airlock_run ai "$@" }
elif zmodload zsh/parameter 2>/dev/null && (( ! ${+aliases[ai]} && ! ${+galiases[ai]} && ! ${+functions[ai]} && ! ${+builtins[ai]} )); then
  # A link to airlock, where PATH has it first, would know nothing.
  if [[ -n ${commands[ai]-} && ${commands[ai]-} -ef $_airlock_program ]]; then
    function ai { _airlock_run ai "$@" }
  fi
fi

typeset -ga preexec_functions precmd_functions
preexec_functions=(_airlock_preexec $preexec_functions)
precmd_functions=(_airlock_precmd $precmd_functions)
'
fi
