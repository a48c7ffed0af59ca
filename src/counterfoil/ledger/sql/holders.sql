-- name: insert!
INSERT INTO holders (
    id, tenant_id, workspace_id, kind, status, host, boot_id, pid, lock_path,
    lease_expires_at, created_at, updated_at
) VALUES (
    :id, :tenant_id, :workspace_id, :kind, :status, :host, :boot_id, :pid, :lock_path,
    :lease_expires_at, :now, :now
);

-- name: get
SELECT * FROM holders
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND id = :id;

-- name: renew
UPDATE holders SET lease_expires_at = :lease_expires_at, updated_at = :now
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND id = :id
    AND status = 'alive'
RETURNING id;

-- name: move
UPDATE holders SET status = :target, updated_at = :now
WHERE tenant_id = :tenant_id AND workspace_id = :workspace_id AND id = :id
    AND status = :source
RETURNING *;
