# What is wrong is named, and nothing is applied.
memplan calibrate
memplan calibrate --model llama-3.2-1b
memplan calibrate --model eagle3 --no-readings
echo '{"observations": 5}' >readings.json
memplan calibrate --model eagle3 --readings readings.json
echo '[{"sequence_length": 4096, "bytes": "many"}]' >readings.json
memplan calibrate --model eagle3 --readings readings.json
memplan calibrate --model eagle3 --readings missing.json
memplan calibrate --model eagle3 -o missing/file >/dev/null
memplan check --calibration missing.json eagle3
echo '{}' >empty.json
memplan check --calibration empty.json eagle3
memplan calibrate --model eagle3 -o calibration.json >/dev/null
memplan check --calibration calibration.json llama-3.2-1b
memplan check --calibration calibration.json --set training.ttt_steps=6 eagle3
memplan check --calibration calibration.json --set model.head_dim=112 eagle3
sed 's/"weight":[0-9.e-]*/"weight":"much"/' calibration.json >broken.json
memplan check --calibration broken.json eagle3
memplan check -o file eagle3
