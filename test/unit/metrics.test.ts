import { describe, expect, it } from '@jest/globals';
import { deletionRefusalReasons, protectedKinds } from '../../api/deletion-protection.ts';
import { createMetrics } from '../../process/metrics.ts';

describe('createMetrics', () => {
  it('keeps the name that alerts on OpenKruise know for the leader', async () => {
    const metrics = createMetrics('watcher');
    metrics.isLeader.set(1);
    expect(await metrics.registry.metrics()).toContain('kruise_manager_is_leader{role="watcher"} 1');
  });

  it('measures the age of a cache when it is asked, not before', async () => {
    const metrics = createMetrics('watcher');
    const reflector = { ageMs: 1_000, isSynced: true, counts: { events: 3, lists: 1, errors: 0, skipped: 0 } };
    metrics.trackReflector('pods', reflector);
    reflector.ageMs = 7_000;
    expect(await metrics.registry.metrics()).toContain('windlass_cache_age_seconds{resource="pods",role="watcher"} 7');
  });

  it('counts what a reflector has heard, once', async () => {
    const metrics = createMetrics('watcher');
    const reflector = { ageMs: 0, isSynced: true, counts: { events: 3, lists: 1, errors: 0, skipped: 0 } };
    metrics.trackReflector('pods', reflector);
    await metrics.registry.metrics();
    reflector.counts.events = 5;
    const text = await metrics.registry.metrics();
    expect(text).toContain('windlass_reflector_events_total{resource="pods",role="watcher"} 5');
    expect(text).toContain('windlass_reflector_lists_total{resource="pods",role="watcher"} 1');
  });

  it('H7, M3: tells which resources cannot be listed, and how many objects are too large to be read', async () => {
    const metrics = createMetrics('watcher');
    const counts = { events: 0, lists: 0, errors: 2, skipped: 0 };
    const reflector = { ageMs: 0, isSynced: false, counts };
    metrics.trackReflector('pods', reflector);
    const before = await metrics.registry.metrics();
    expect(before).toContain('windlass_cache_synced{resource="pods",role="watcher"} 0');
    expect(before).toContain('windlass_reflector_errors_total{resource="pods",role="watcher"} 2');
    reflector.isSynced = true;
    counts.skipped = 3;
    const after = await metrics.registry.metrics();
    expect(after).toContain('windlass_cache_synced{resource="pods",role="watcher"} 1');
    expect(after).toContain('windlass_cache_skipped_objects{resource="pods",role="watcher"} 3');
  });

  it('F1: counts what has yet to move to the current version of the workers, and forgets it with the term', async () => {
    const metrics = createMetrics('watcher');
    metrics.reportVersions({ isCurrent: true, runs: { draining: 3, orphaned: 1, unversioned: 0 } });
    const before = await metrics.registry.metrics();
    expect(before).toContain('windlass_worker_version_runs{state="orphaned",role="watcher"} 1');
    expect(before).toContain('windlass_worker_version_draining{role="watcher"} 1');
    metrics.reportVersions(undefined);
    const after = await metrics.registry.metrics();
    expect(after).toContain('windlass_worker_version_runs{state="orphaned",role="watcher"} 0');
    expect(after).toContain('windlass_worker_version_current{role="watcher"} 0');
  });

  it('counts stuck operations by workflow type, and waits for it by their reason', async () => {
    const metrics = createMetrics('watcher');
    metrics.stuckOperations.set({ workflow_type: 'rollOut' }, 2);
    const waiting = { reason: 'EngineStuck', sinceMs: 4_000 };
    metrics.reportOperations('NodeImage', [{ phase: 'Pulling', waiting }], 10_000);
    const text = await metrics.registry.metrics();
    expect(text).toContain('windlass_operations_stuck{workflow_type="rollOut",role="watcher"} 2');
    expect(text).toMatch(/windlass_operation_waiting_seconds{kind="NodeImage",reason="EngineStuck",role="watcher"} 6/);
  });

  it('tells how much waits in a queue when it is asked', async () => {
    const metrics = createMetrics('watcher');
    let depth = 0;
    metrics.trackQueue('requests', () => depth);
    depth = 4;
    expect(await metrics.registry.metrics()).toContain('windlass_queue_depth{queue="requests",role="watcher"} 4');
  });

  it('counts operations by phase, and reports the longest wait of each reason', async () => {
    const metrics = createMetrics('worker');
    const states = [
      { phase: 'Recreating' },
      { phase: 'Recreating', waiting: { reason: 'BudgetSpent', sinceMs: 4_000 } },
      { phase: 'Pending', waiting: { reason: 'BudgetSpent', sinceMs: 9_000 } },
    ];
    metrics.reportOperations('CloneSet', states, 10_000);
    const text = await metrics.registry.metrics();
    expect(text).toContain('windlass_operations{kind="CloneSet",phase="Recreating",role="worker"} 2');
    expect(text).toContain('windlass_operation_waiting_seconds{kind="CloneSet",reason="BudgetSpent",role="worker"} 6');
  });

  it('reports 0 for what has ended, of that kind only', async () => {
    const metrics = createMetrics('worker');
    metrics.reportOperations('CloneSet', [{ phase: 'Updating', waiting: { reason: 'Paused', sinceMs: 0 } }], 1_000);
    metrics.reportOperations('DaemonSet', [{ phase: 'Updating' }], 1_000);
    metrics.reportOperations('CloneSet', [], 2_000);
    const text = await metrics.registry.metrics();
    expect(text).toContain('windlass_operations{kind="CloneSet",phase="Updating",role="worker"} 0');
    expect(text).toContain('windlass_operation_waiting_seconds{kind="CloneSet",reason="Paused",role="worker"} 0');
    expect(text).toContain('windlass_operations{kind="DaemonSet",phase="Updating",role="worker"} 1');
  });

  it('M5: texts that others have written into an object make no series of their own', async () => {
    const metrics = createMetrics('watcher');
    for (let pod = 0; pod < 50; pod++) {
      const waiting = { reason: `${'x'.repeat(1_000)} ${pod}`, sinceMs: pod === 0 ? Number.NaN : 0 };
      metrics.reportOperations('JobSidecarTermination', [{ phase: `phase ${pod}`, waiting }], 60_000);
    }
    const many = Array.from({ length: 50 }, (_, index) => ({
      phase: `P${'abcdefghij'[index % 10]}${'x'.repeat(index)}`,
    }));
    metrics.reportOperations('Other', many, 60_000);
    const text = await metrics.registry.metrics();
    const series = text.split('\n').filter((line) => line.startsWith('windlass_operation'));
    expect(series.length).toBeLessThanOrEqual(2 + 21);
    expect(text).toContain(
      'windlass_operation_waiting_seconds{kind="JobSidecarTermination",reason="Other",role="watcher"} 60',
    );
    expect(text.length).toBeLessThan(50_000);
  });

  it('M5: drops a series that has been 0 for an hour', async () => {
    const metrics = createMetrics('watcher');
    metrics.reportOperations('CloneSet', [{ phase: 'Updating', waiting: { reason: 'Paused', sinceMs: 0 } }], 0);
    metrics.reportOperations('CloneSet', [], 3_600_000);
    expect(await metrics.registry.metrics()).toContain('phase="Updating"');
    metrics.reportOperations('CloneSet', [], 3_600_001);
    const text = await metrics.registry.metrics();
    expect(text).not.toContain('phase="Updating"');
    expect(text).not.toContain('reason="Paused"');
    metrics.reportOperations('CloneSet', [{ phase: 'Updating' }], 3_700_000);
    expect(await metrics.registry.metrics()).toContain('kind="CloneSet",phase="Updating",role="watcher"} 1');
  });

  it('M5: counts refused deletions under names that alerts know, by kind and reason and by nothing that users write', async () => {
    const metrics = createMetrics('webhook');
    for (const kind of Object.values(protectedKinds)) {
      for (const reason of deletionRefusalReasons) metrics.countDeletionRefusal(kind, reason);
    }
    metrics.countDeletionRefusal(protectedKinds.Namespace, 'ActivePods');
    const text = await metrics.registry.metrics();
    expect(text).toContain('namespace_deletion_protection{reason="ActivePods",role="webhook"} 2');
    expect(text).toContain('crd_deletion_protection{reason="GateOff",role="webhook"} 1');
    expect(text).toContain(
      'workload_deletion_protection{group="apps.kruise.io",kind="CloneSet",reason="Replicas",role="webhook"} 1',
    );
    expect(text).not.toMatch(/kind="(Service|Ingress)"/);
    const labels = [...text.matchAll(/_deletion_protection{([^}]*)}/g)].flatMap(([, all = '']) => [
      ...all.matchAll(/(\w+)=/g),
    ]);
    expect(new Set(labels.map(([, name]) => name))).toEqual(new Set(['group', 'kind', 'reason', 'role']));
  });

  it('keeps the processes of a test apart', async () => {
    const [one, other] = [createMetrics('watcher'), createMetrics('watcher')];
    one.trackQueue('fleet', () => 5);
    expect(await other.registry.metrics()).not.toContain('queue="fleet"');
  });
});
