# source: the tutorial's command for one card
python scripts/train.py \
  --verifier-name-or-path Qwen/Qwen3-8B \
  --draft-vocab-size 32000 --epochs 5 --lr 1e-4 --total-seq-len 8192 \
  --on-missing generate --on-generate delete
