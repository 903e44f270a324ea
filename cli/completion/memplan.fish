# SPDX-License-Identifier: MIT
# Completion for fish: memplan itself says what may follow, from the table of its options.

function __memplan_complete
    set -l words (commandline -opc)
    set -l last (commandline -ct)
    set -l program $words[1]
    set -l meant (string unescape -- $last 2>/dev/null; or string trim --left --chars \'\" -- $last)
    set -e words[1]
    for line in ($program completion words $words "$meant" 2>/dev/null)
        switch $line
            case :open
                # fish adds no space after "="
            case :files
                if string match -q -- '--*=*' $last
                    set -l option (string replace -r -- '=.*' '=' $last)
                    set -l path (string replace -r -- '^[^=]*=' '' $last)
                    for file in (__fish_complete_path $path)
                        echo $option$file
                    end
                else
                    __fish_complete_path $last
                end
            case ':command *'
                set -l first (math 1 + (string replace ':command ' '' -- $line))
                set -l rest $words $last
                complete -C (string join ' ' -- $rest[$first..-1])
            case '*'
                echo $line
        end
    end
end

complete -c memplan -f -a '(__memplan_complete)'
