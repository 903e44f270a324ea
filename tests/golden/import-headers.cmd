# Headers of weights that are broken, cut or hostile: refused with the tensor and the byte.
# file NAME LENGTH HEADER DATA_BYTES: LENGTH "" is the header's own
file() {
    length=${2:-$(printf %s "$3" | wc -c)}
    i=0
    while [ $i -lt 8 ]; do
        printf "\\$(printf %03o $((length & 255)))"
        length=$((length >> 8)) i=$((i + 1))
    done >"$1.safetensors"
    printf %s "$3" >>"$1.safetensors"
    truncate -s "+$4" "$1.safetensors"
}
refuse() {
    file "$@"
    memplan import "$1.safetensors" 2>&1
    echo "$1: exit $?"
}
t='"dtype":"F32","shape":[2],"data_offsets"'
: >empty.safetensors
memplan import empty.safetensors 2>&1
printf 'abc' >three.safetensors
memplan import three.safetensors 2>&1
refuse long 1000000 "{\"a\":{$t:[0,8]}}" 8
refuse huge -1 "{\"a\":{$t:[0,8]}}" 8
refuse bound 100000001 "{}" 200000000
refuse cut 20 "{\"a\":{$t:[0,8]}}" 8
refuse no-object "" "[1]" 0
refuse no-json "" "{x" 0
refuse behind "" "{} {}" 0
refuse comma "" "{\"a\":{$t:[0,8]} \"b\":{$t:[8,16]}}" 16
refuse key "" "{3:{$t:[0,8]}}" 8
refuse colon "" "{\"a\" {$t:[0,8]}}" 8
refuse twice "" "{\"a\":{$t:[0,8]},\"b\":{$t:[8,16]},\"a\":{$t:[16,24]}}" 24
refuse inner-twice "" "{\"a\":{$t:[0,8],\"dtype\":\"F16\"}}" 8
refuse outside "" "{\"a\":{$t:[0,8]},\"b\":{$t:[8,16]}}" 8
refuse overlap "" "{\"a\":{$t:[0,8]},\"b\":{$t:[4,12]}}" 12
refuse gap "" "{\"a\":{$t:[0,8]},\"b\":{$t:[12,20]}}" 20
refuse start "" "{\"a\":{$t:[4,12]}}" 12
refuse end "" "{\"a\":{$t:[0,8]}}" 12
refuse backwards "" "{\"a\":{$t:[8,0]}}" 8
refuse negative "" "{\"a\":{$t:[-8,0]}}" 8
refuse three-offsets "" "{\"a\":{$t:[0,4,8]}}" 8
refuse size "" "{\"a\":{$t:[0,12]}}" 12
refuse overflow "" '{"a":{"dtype":"F32","shape":[4294967296,4294967296,2],"data_offsets":[0,0]}}' 0
refuse bits-overflow "" '{"a":{"dtype":"F64","shape":[1152921504606846976],"data_offsets":[0,0]}}' 0
refuse large-number "" '{"a":{"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,0]}}' 0
refuse zero-times-huge "" '{"a":{"dtype":"F32","shape":[0,9223372036854775807,9223372036854775807],"data_offsets":[0,0]}}' 0
refuse real-size "" '{"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,6]}}' 6
refuse half-byte "" '{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,1]}}' 1
refuse dtype "" '{"a":{"dtype":"F33","shape":[1],"data_offsets":[0,4]}}' 4
refuse no-dtype "" '{"a":{"shape":[1],"data_offsets":[0,4]}}' 4
refuse no-tensor "" '{"a":7}' 0
refuse ranks "" '{"a":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}}' 1
refuse metadata "" '{"__metadata__":{"a":1}}' 0
refuse metadata-twice "" '{"__metadata__":{},"__metadata__":{}}' 0
refuse zero-name "" '{"a\u0000b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}' 1
refuse no-name "" '{"":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}' 1
refuse long-name "" "{\"$(printf '%0600d' 0)\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}" 1
refuse control "" "{\"$(printf 'a\001\033[31m')\":{$t:[0,8]}}" 8
deep=$(printf '%0100000d' 0 | tr 0 '[')
refuse deep "" "{\"a\":$deep" 0
refuse not-utf8 "" "$(printf '{"\377":{}}')" 0
echo "# what is odd and sound: no tensor, empty ones, blanks, a file of 4 TiB"
for_sound() {
    file "$@"
    memplan import "$1.safetensors" 2>&1 >/dev/null
    echo "$1: exit $?"
}
for_sound none "" "{}" 0
for_sound nothing "" '{"a":{"dtype":"F32","shape":[0,5],"data_offsets":[0,0]},"b":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}' 4
for_sound blank "" '{ "__metadata__" : {"format":"pt"} , "a" : {"dtype":"F4","shape":[4],"data_offsets":[0,2]} }   ' 2
for_sound large "" '{"a":{"dtype":"BF16","shape":[1048576,2097152],"data_offsets":[0,4398046511104]}}' 4398046511104
