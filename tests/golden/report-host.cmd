cp "$GOLDEN/small.json" .
memplan --model small.json --set host.memory_bytes=300MB --set host.dataloader_workers=4 --set host.pin_memory=true --set checkpoint.resume=cpu --no-suggestions | sed -n "/^Host/,/^\$/p"
