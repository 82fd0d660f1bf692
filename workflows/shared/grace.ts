import { CancellationScope, sleep } from '@temporalio/workflow';

/** How long a run that ends or hands over waits for what is in flight. */
const graceMs = 60_000;

/** Waits for what is in flight before a run ends, and not for ever: that may never end. */
export interface Grace {
  /** Whether a run that is to end may do so now. `isDone`: nothing is in flight any more. */
  readonly isOver: (isEnd: boolean, isDone: boolean) => boolean;
}

/** `summary` is what the timer is called in the history; `over` is called when the time has passed. */
export function newGrace(summary: string, over: () => void): Grace {
  let waiting: { readonly scope: CancellationScope; isOver: boolean } | undefined;

  return {
    isOver(isEnd, isDone) {
      if (!isEnd || isDone) {
        waiting?.scope.cancel();
        waiting = undefined;
        return isEnd;
      }
      waiting ??= begin();
      return waiting.isOver;
    },
  };

  function begin() {
    const begun = { scope: new CancellationScope(), isOver: false };
    void begun.scope
      .run(() => sleep(graceMs, { summary }))
      .then(
        () => {
          begun.isOver = true;
          over();
        },
        () => undefined,
      );
    return begun;
  }
}
