# One line each, whatever a file is called.
memplan --model "$(printf 'two\nlines\033[2J')"
