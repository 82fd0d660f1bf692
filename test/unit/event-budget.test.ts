import { describe, expect, it } from '@jest/globals';
import { warning } from '../../api/core/event.ts';
import { EventBudget } from '../../kube/events.ts';

const about = { metadata: { name: 'db', uid: 'db-uid', resourceVersion: '1', creationTimestamp: '' } };

describe('Events about something that lasts', () => {
  it('are written once in five minutes, and each further message at once', () => {
    let nowMs = 0;
    const budget = new EventBudget(() => nowMs);
    const written: string[] = [];
    for (; nowMs < 600_000; nowMs += 1_000) {
      const claim = nowMs < 400_000 ? 'data-db-0' : 'data-db-1';
      if (budget.takeLasting(about, warning('FailedUpdatePVC', claim))) written.push(`${nowMs / 1_000} ${claim}`);
    }
    expect(written).toEqual(['0 data-db-0', '300 data-db-0', '400 data-db-1']);
  });

  it('are within what an object may get of a reason, however many messages there are', () => {
    const budget = new EventBudget(() => 0);
    const taken = Array.from({ length: 100 }, (_, n) => budget.takeLasting(about, warning('FailedUpdatePVC', `${n}`)));
    expect(taken.filter(Boolean)).toHaveLength(25);
  });
});
