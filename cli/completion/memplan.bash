# SPDX-License-Identifier: MIT
# Completion for bash: memplan itself says what may follow, from the table of its options.

# The words up to the cursor, whole: bash splits them at "=" and ":". Sets words, and the index of
# each in COMP_WORDS in starts.
_memplan_words() {
    local i part glued=1
    words=() starts=()
    for ((i = 1; i <= COMP_CWORD; i++)); do
        part=${COMP_WORDS[i]}
        if ((i > 1)) && [[ $part == [=:]* || $glued == 0 ]]; then
            words[${#words[@]}-1]+=$part
        else
            words+=("$part")
            starts+=("$i")
        fi
        [[ $part == *[=:] && $COMP_WORDBREAKS == *"${part: -1}"* ]] && glued=0 || glued=1
    done
}

# What a word means: without the quotes around it, or backslashes. Sets meant.
_memplan_unquoted() {
    meant=$1
    case $1 in
    \"*) meant=${meant#\"} meant=${meant%\"} ;;
    \'*) meant=${meant#\'} meant=${meant%\'} ;;
    *) meant=${meant//\\/} ;;
    esac
}

# The part of a candidate that bash is to put in place of the last of its own words.
_memplan_rest() {
    local head=$1 whole=$2
    [[ $COMP_WORDBREAKS == *=* && $head == *=* ]] && whole=${whole#"${head%=*}="} head=${head##*=}
    [[ $COMP_WORDBREAKS == *:* && $head == *:* ]] && whole=${whole#"${head%:*}:"}
    rest=$whole
}

_memplan_command() {
    local index=$1
    if declare -F _command_offset >/dev/null; then
        _command_offset "${starts[index]}"
    elif ((index == ${#words[@]} - 1)); then
        mapfile -t COMPREPLY < <(compgen -c -- "${words[index]}")
    else
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "${words[${#words[@]}-1]}")
    fi
}

_memplan() {
    local line rest last meant plain=() files=0
    local -a words starts
    COMPREPLY=()
    _memplan_words
    for line in "${words[@]}"; do
        _memplan_unquoted "$line"
        plain+=("$meant") last=$line
    done
    while IFS= read -r line; do
        case $line in
        :files) files=1 ;;
        :open) compopt -o nospace 2>/dev/null ;;
        :command\ *) _memplan_command "${line#:command }" ;;
        *)
            _memplan_rest "$meant" "${line%%$'\t'*}"
            [[ $last == [\"\']* ]] || printf -v rest '%q' "$rest"
            COMPREPLY+=("$rest")
            ;;
        esac
    done < <("${COMP_WORDS[0]}" completion words "${plain[@]}" 2>/dev/null)
    if ((files)); then
        _memplan_rest "$meant" "$meant"
        compopt -o filenames 2>/dev/null
        while IFS= read -r line; do
            COMPREPLY+=("$line")
        done < <(compgen -f -- "$rest")
    fi
}

complete -F _memplan memplan
