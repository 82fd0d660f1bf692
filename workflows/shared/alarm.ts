import { CancellationScope, sleep } from '@temporalio/workflow';

/** A time that is waited for. Another key: another one. */
export interface AlarmTime {
  readonly key: string;
  readonly inMs: number;
}

/**
 * Waits for one time after the other: each call says which one is waited for from now on, or that none is. `summary` is
 * what the timers are called in the history.
 */
export function newAlarm(summary: string, ring: () => void): (wanted: AlarmTime | undefined) => void {
  let current: { readonly key: string; readonly scope: CancellationScope } | undefined;

  return (wanted) => {
    if (wanted?.key === current?.key) return;
    current?.scope.cancel();
    current = undefined;
    if (!wanted) return;
    const begun = { key: wanted.key, scope: new CancellationScope() };
    current = begun;
    void begun.scope
      .run(() => sleep(Math.max(wanted.inMs, 1), { summary }))
      .then(
        () => {
          if (current === begun) ring();
        },
        () => undefined,
      );
  };
}
