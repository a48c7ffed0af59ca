-- name: head
SELECT seq, hash, (
    SELECT fence FROM runs
    WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND id = :stream
)
FROM run_heads
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND stream = :stream;

-- name: open_head!
INSERT INTO run_heads (tenant_id, workspace_id, stream, seq, hash)
VALUES (:tenant_id, :workspace_id, :stream, :seq, :hash);

-- name: advance_head!
UPDATE run_heads SET seq = :seq, hash = :hash
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND stream = :stream;

-- name: append!
INSERT INTO journal (
    tenant_id, workspace_id, stream, seq, kind, at, task_id, attempt_id, payload, moves,
    body_sha256, hash
) VALUES (
    :tenant_id, :workspace_id, :stream, :seq, :kind, :at, :task_id, :attempt_id, :payload,
    :moves, :body_sha256, :hash
);

-- name: entry_hash
SELECT hash FROM journal
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
    AND stream = :stream AND seq = :seq;

-- name: since
SELECT * FROM journal
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id
    AND stream = :stream AND seq > :since
ORDER BY seq LIMIT :most;

-- name: streams
SELECT stream, seq, hash FROM run_heads
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND stream > :after
ORDER BY stream LIMIT :most;

-- name: run_ids
SELECT DISTINCT stream FROM journal
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id;
