cp "$GOLDEN/read-log.txt" train.log
sed -n 5p train.log | memplan read-log --json -
memplan read-log --json train.log | python3 -c '
import json, sys
for file in json.load(sys.stdin)["files"]:
    for message in file["messages"]:
        print(message["form"], message["count"], message["lines"], message["ranks"])'
