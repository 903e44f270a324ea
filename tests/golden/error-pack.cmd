# What pack refuses, with file and line.
one() { printf "$1" | memplan pack --rule trl-bfd --seq 64 -; }
one '12\n13 14\n'
one '12 2\n13\n'
one '12\n-3\n'
one '12\n1.5\n'
one 'many\n'
one '\n\n'
one '9999999999\n'
one '99999999999999999999999999\n'
one '5 99999999999\n'
one '5 268435456\n6 1\n'
one '{"length": 5}\n{"length": -1}\n'
one '{"length": 5}\n{"size": 1}\n'
one '{"length": 5}\n{"length": 5\n'
one '{"length": 1, "length": 2}\n'
one '[1, 2]\n"x"\n'
one '12\n\0013\n'
printf '5\n' >l.txt
memplan pack --seq 64 l.txt
memplan pack --rule best --seq 64 l.txt
memplan pack --rule trl-bfd l.txt
memplan pack --rule trl-bfd --seq 64,,5 l.txt
memplan pack --rule trl-bfd --seq 0 l.txt
memplan pack --rule trl-bfd --seq 99999999 l.txt
memplan pack --rule trl-bfd --seq 64
memplan pack --rule trl-bfd --seq 64 missing.txt
memplan pack --rule trl-bfd --seq 64 .
memplan pack --rule speculators --batch 2 --seq 64 l.txt
memplan pack --rule trl-bfd --world 0 --seq 64 l.txt
memplan pack --rule trl-bfd --seed x --seq 64 l.txt
echo 1073741824 >long.txt
memplan pack --rule trl-bfd-split --seq 1 long.txt
memplan pack --rule none --seq 64 --model missing l.txt
