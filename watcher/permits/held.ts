/** For how long a permit holds: as long as the activity that handed it in is known to live. */
export interface PermitLife {
  /** Asked before each disruption. False: not now; it may be confirmed anew, unless it has ended. */
  isAlive(): boolean;
  /** Aborts when it ends. A frozen process learns it late from here: `isAlive` is the fence. */
  readonly ended: AbortSignal;
}

/** Something that an activity has handed in, until it has an answer. */
export interface Held<Answer> {
  readonly life: PermitLife;
  readonly end: (answer: Answer) => void;
  readonly fail: (reason: unknown) => void;
}

/** A promise that is kept by `end`, and broken by `fail` or when the life ends; `forget` is called in every case. */
export function heldFor<Answer, Kept extends Held<Answer>>(
  life: PermitLife,
  keep: (held: Held<Answer>) => Kept,
  forget: (kept: Kept) => void,
): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const onEnded = () => kept.fail(life.ended.reason);
  const leave = () => {
    life.ended.removeEventListener('abort', onEnded);
    forget(kept);
  };
  const kept = keep({
    life,
    end(answer) {
      leave();
      resolve(answer);
    },
    fail(reason) {
      leave();
      reject(reason);
    },
  });
  life.ended.addEventListener('abort', onEnded, { once: true });
  return promise;
}
