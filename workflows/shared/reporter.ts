import { condition } from '@temporalio/workflow';

/** Keeps a status written down as it changes. */
export interface Reporter<Status> {
  /** Has this written, or whatever is current once earlier writes are through. */
  readonly report: (status: Status) => void;
  /** What is written turned out to be something else: somebody has written over it. */
  readonly correct: (correction: (written: Status) => Status) => void;
  /** Waits until the last status that was reported is written. */
  readonly flushed: () => Promise<void>;
}

/**
 * Writes one status at a time and skips those that are overtaken, so a slow API server sees fewer writes, in order.
 * `write` gets what was written before and answers what stands now.
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
        // after a write, which may have been on its way when the correction was found
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
