import { condition } from '@temporalio/workflow';

/** Keeps a stored status up to date. */
export interface Reporter<Status> {
  /** Requests a write of this status, or of a newer one when earlier writes are done. */
  readonly report: (status: Status) => void;
  /** Corrects the written status after somebody else has overwritten it. */
  readonly correct: (correction: (written: Status) => Status) => void;
  /** Waits until the last reported status is written. */
  readonly flushed: () => Promise<void>;
}

/**
 * Writes one status at a time and skips superseded ones, so that a slow API server sees fewer writes, in order. `write`
 * gets the previously written status and returns the one that is stored now.
 */
export function newReporter<Status>(options: {
  readonly initial: Status;
  readonly same: (a: Status, b: Status) => boolean;
  readonly write: (before: Status, wanted: Status) => Promise<Status>;
}): Reporter<Status> {
  let written = options.initial;
  let wanted = options.initial;
  let writing = false;
  const corrections: ((written: Status) => Status)[] = [];

  async function write(): Promise<void> {
    if (writing) return;
    writing = true;
    try {
      for (;;) {
        // after a write, which may have been in progress when the correction was found
        written = corrections.splice(0).reduce((status, correction) => correction(status), written);
        if (options.same(written, wanted)) return;
        written = await options.write(written, wanted);
      }
    } finally {
      writing = false;
    }
  }

  return {
    report: (status) => {
      wanted = status;
      void write();
    },
    correct: (correction) => {
      corrections.push(correction);
      void write();
    },
    flushed: () => condition(() => !writing),
  };
}
