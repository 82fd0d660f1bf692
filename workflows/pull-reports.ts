/** Writes reports about pulls into a NodeImage: one write at a time; a superseded report is never written. */
import { CancellationScope } from '@temporalio/workflow';
import { sameJson } from '../api/base/json.ts';
import { referenceOf } from '../api/core/familiar-image.ts';
import type { NodeRef } from '../api/core/refs.ts';
import type { WaitingFor } from '../api/engine/waiting-for.ts';
import { type NextReport, nextReport, type Pull, reportOf, type TagReport } from '../plan/images/pull-images.ts';
import { shortened, summaryBytes } from '../plan/text-size.ts';
import { images } from './shared/activities.ts';
import { type Displayed, newDisplay } from './shared/display.ts';
import { type Retries, untilAllowed } from './shared/until-allowed.ts';

export interface PullReports {
  /** Adds a report about a pull to the next write. */
  readonly put: (key: string, pull: Pull) => void;
  /** Drops the report about this pull. */
  readonly drop: (key: string) => void;
  /** Writes all pending reports, unless a write is in progress. */
  readonly write: () => Promise<void>;
  /** Writes the status without a new report, so that tags that are not in the spec are removed. */
  readonly cleanUp: () => Promise<void>;
  /** Records the wait that a look has found in the status. */
  readonly seen: (waitingFor: WaitingFor | undefined) => void;
  /** Whether everything is written. */
  readonly isDone: () => boolean;
  /** Whether a wait is shown in Temporal. */
  readonly showsWait: () => boolean;
}

/** `waitingFor`: what the node waits for now; its argument is the wait that was written last. */
export function newPullReports(
  nodeImage: NodeRef,
  operator: Retries,
  waitingFor: (written: WaitingFor | undefined) => WaitingFor | undefined,
): PullReports {
  const due = new Map<string, TagReport>();
  const display = newDisplay();
  let showsWait = false;
  let isWriting = false;
  let written: WaitingFor | undefined;

  return {
    put: (key, pull) => void due.set(key, reportOf(pull)),
    drop: (key) => void due.delete(key),
    write: () => {
      if (isWriting) return Promise.resolve();
      isWriting = true;
      // the pull may be cancelled, but not its report
      return CancellationScope.nonCancellable(writeAll);
    },
    cleanUp: () => writeOne('clean up', nextReport(nodeImage, [], waitingFor(written))),
    seen: (wait) => {
      if (!isWriting) written = wait;
    },
    isDone: () => due.size === 0 && !isWriting,
    showsWait: () => showsWait,
  };

  async function writeAll(): Promise<void> {
    try {
      // reports of the same moment are written together
      await Promise.resolve();
      for (;;) {
        const wait = waitingFor(written);
        const reports = [...due.entries()];
        const next = nextReport(
          nodeImage,
          reports.map(([, report]) => report),
          wait,
        );
        const { tags } = next;
        if (tags.length === 0 && sameJson(wait, written)) return;
        for (const [key] of reports.slice(0, tags.length)) due.delete(key);
        display(displayed(wait));
        showsWait = wait !== undefined;
        await writeOne(summaryOf(tags), next);
        written = wait;
      }
    } finally {
      isWriting = false;
    }
  }

  async function writeOne(summary: string, report: NextReport): Promise<void> {
    await untilAllowed(() => images.reportPulls.executeWithOptions({ summary }, [report]), operator, {
      superseded: () => undefined, // the NodeImage is gone: the next look says so
    });
  }
}

function summaryOf(tags: readonly TagReport[]): string {
  const [first] = tags;
  const what = tags.length === 1 && first ? `${referenceOf(first)} ${first.phase}` : `${tags.length} tags`;
  return shortened(`report ${what}`, summaryBytes);
}

function displayed(wait: WaitingFor | undefined): Displayed {
  if (wait === undefined) return { details: '', reason: '' };
  const { reason, blockedBy, unblock } = wait;
  return { details: `${reason}: ${blockedBy.join(', ')}: ${unblock}`, reason };
}
