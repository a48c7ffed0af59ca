-- The record: runs and their journal, steps, tasks, attempts, gate results, artifacts, holders.
-- Times are microseconds since 1970 (UTC). JSON is canonical text. Both scope columns lead every
-- key. A comment that opens with "sqlite" is SQL for that engine only.

CREATE TABLE holders (
    id TEXT PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    kind TEXT NOT NULL,
    status TEXT NOT NULL,
    host TEXT NOT NULL,
    boot_id TEXT NOT NULL,
    pid BIGINT NOT NULL,
    lock_path TEXT NOT NULL,
    lease_expires_at BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    run_key TEXT,
    request_id TEXT,
    parent_run_id TEXT,
    source_run_id TEXT,
    lineage_root_id TEXT NOT NULL,
    attempt_no BIGINT NOT NULL,
    subject_kind TEXT NOT NULL,
    subject_id TEXT NOT NULL,
    subject_version_id TEXT NOT NULL,
    status TEXT NOT NULL,
    cause TEXT NOT NULL,
    holder_id TEXT NOT NULL,
    fence BIGINT NOT NULL,
    input_summary TEXT NOT NULL,
    input_cut BIGINT NOT NULL,
    input_json TEXT,
    input_artifact_id TEXT,
    input_size BIGINT NOT NULL,
    input_sha256 TEXT NOT NULL,
    input_hash TEXT NOT NULL,
    input_hash_key TEXT NOT NULL,
    redacted_paths TEXT NOT NULL,
    output_summary TEXT NOT NULL,
    output_cut BIGINT NOT NULL,
    result_json TEXT,
    result_artifact_id TEXT,
    result_size BIGINT,
    result_sha256 TEXT NOT NULL,
    error_code TEXT NOT NULL,
    error_message TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    started_at BIGINT,
    ended_at BIGINT,
    updated_at BIGINT NOT NULL
);
CREATE INDEX ix_runs_created ON runs (tenant_id, workspace_id, created_at, id);
CREATE INDEX ix_runs_source ON runs (tenant_id, workspace_id, source_run_id, created_at)
    WHERE source_run_id IS NOT NULL;
CREATE UNIQUE INDEX ux_runs_key ON runs (tenant_id, workspace_id, run_key)
    WHERE run_key IS NOT NULL
    AND status NOT IN ('succeeded', 'failed', 'canceled', 'expired');

CREATE TABLE run_heads (
    tenant_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    stream TEXT NOT NULL,
    seq BIGINT NOT NULL,
    hash TEXT NOT NULL,
    PRIMARY KEY (tenant_id, workspace_id, stream)
) /*sqlite WITHOUT ROWID */;

CREATE TABLE journal (
    tenant_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    stream TEXT NOT NULL,
    seq BIGINT NOT NULL,
    kind TEXT NOT NULL,
    at BIGINT NOT NULL,
    task_id TEXT,
    attempt_id TEXT,
    payload TEXT,
    moves TEXT NOT NULL,
    body_sha256 TEXT NOT NULL,
    hash TEXT NOT NULL,
    PRIMARY KEY (tenant_id, workspace_id, stream, seq)
) /*sqlite WITHOUT ROWID */;

CREATE TABLE run_steps (
    id TEXT NOT NULL,
    tenant_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    step_key TEXT NOT NULL,
    step_type TEXT NOT NULL,
    task_id TEXT,
    attempt_id TEXT,
    status TEXT NOT NULL,
    input_summary TEXT NOT NULL,
    output_summary TEXT NOT NULL,
    cut BIGINT NOT NULL,
    result_json TEXT,
    result_artifact_id TEXT,
    result_size BIGINT,
    result_sha256 TEXT NOT NULL,
    record_hash TEXT NOT NULL,
    redacted_paths TEXT NOT NULL,
    error_code TEXT NOT NULL,
    error_message TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    started_at BIGINT,
    ended_at BIGINT,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, workspace_id, run_id, step_key)
) /*sqlite WITHOUT ROWID */;

CREATE TABLE plan_tasks (
    tenant_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    position BIGINT NOT NULL,
    title TEXT NOT NULL,
    spec_sha256 TEXT NOT NULL,
    status TEXT NOT NULL,
    accepted BIGINT NOT NULL,
    reason TEXT NOT NULL,
    candidate TEXT NOT NULL,
    merged_commit TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (tenant_id, workspace_id, run_id, task_id)
) /*sqlite WITHOUT ROWID */;

CREATE TABLE attempts (
    id TEXT PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    phase TEXT NOT NULL,
    ordinal BIGINT NOT NULL,
    status TEXT NOT NULL,
    outcome TEXT NOT NULL,
    end_cause TEXT NOT NULL,
    error_class TEXT NOT NULL,
    message TEXT NOT NULL,
    agent TEXT NOT NULL,
    session TEXT NOT NULL,
    holder_id TEXT NOT NULL,
    fence BIGINT NOT NULL,
    base TEXT NOT NULL,
    candidate TEXT NOT NULL,
    tree TEXT NOT NULL,
    folder TEXT NOT NULL,
    worktree TEXT NOT NULL,
    exit_json TEXT,
    report_json TEXT,
    duration_ms BIGINT,
    created_at BIGINT NOT NULL,
    started_at BIGINT,
    ended_at BIGINT,
    updated_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX ux_attempts_ordinal
    ON attempts (tenant_id, workspace_id, run_id, task_id, phase, ordinal);

CREATE TABLE gate_results (
    id TEXT PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    task_id TEXT NOT NULL,
    attempt_id TEXT NOT NULL,
    tree TEXT NOT NULL,
    gate TEXT NOT NULL,
    environment TEXT NOT NULL,
    result TEXT NOT NULL,
    fail_class TEXT NOT NULL,
    command TEXT NOT NULL,
    cwd TEXT NOT NULL,
    exit_code BIGINT,
    duration_ms BIGINT,
    fingerprint TEXT NOT NULL,
    output_artifact_id TEXT,
    created_at BIGINT NOT NULL
);
CREATE INDEX ix_gate_results_tree
    ON gate_results (tenant_id, workspace_id, run_id, tree, gate, environment);

CREATE TABLE run_artifacts (
    id TEXT PRIMARY KEY,
    tenant_id TEXT NOT NULL,
    workspace_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    step_id TEXT,
    attempt_id TEXT,
    type TEXT NOT NULL,
    mime TEXT NOT NULL,
    size_bytes BIGINT NOT NULL,
    sha256 TEXT NOT NULL,
    storage_key TEXT NOT NULL,
    meta TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX ix_run_artifacts_run ON run_artifacts (tenant_id, workspace_id, run_id, created_at);
