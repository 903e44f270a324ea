cp "$GOLDEN/read-log.txt" train.log
memplan read-log train.log
