// `kubectl kruise rollout status`: follows a roll-out until it is done (KK-6).
import type { KubeClient } from '../../kube/client.ts';
import { CommandFailed } from '../failure.ts';
import { blockersText } from '../output/table.ts';
import type { RolledOut } from './kind.ts';
import { quotedName, type Target } from './objects.ts';

export interface StatusOptions {
  readonly kube: KubeClient;
  readonly now: () => number;
  /** Called with each new line, and the object that it is about. */
  readonly print: (line: string, object: RolledOut) => Promise<void>;
  /** Without it one line is printed. */
  readonly watch: boolean;
  /** The number of the revision that has to be the newest; 0: any. */
  readonly revision: number;
  /** Ends the command with an error. */
  readonly signal: AbortSignal;
}

/** Prints how far the roll-out is, and what it waits for, until it is done. */
export async function followRollout(target: Target, options: StatusOptions): Promise<void> {
  const { kube, watch, signal } = options;
  const [resource] = target.kind.versions;
  const { name, namespace } = target.ref;
  const show = lineOfEach(target, options);
  try {
    const first = await kube.get<RolledOut>(resource, target.ref, { signal });
    await checkRevision(target, first, options);
    if ((await show(first)) || !watch) return;
    let shown: string | undefined = first.metadata.resourceVersion;
    const only = { namespace, fieldSelector: `metadata.name=${name}` };
    // The server ends each watch after a while: then the object is looked at again.
    for (;;) {
      const { items, resourceVersion } = await kube.list<RolledOut>(resource, { ...only, signal });
      const [present] = items;
      if (present === undefined || present.metadata.uid !== first.metadata.uid) throw deleted();
      const isShown = present.metadata.resourceVersion === shown;
      shown = undefined;
      if (!isShown && (await show(present))) return;
      for await (const event of kube.watch<RolledOut>(resource, { ...only, resourceVersion, signal })) {
        if (event.type === 'DELETED') throw deleted();
        if (event.type !== 'BOOKMARK' && (await show(event.object))) return;
      }
    }
  } catch (error) {
    if (signal.aborted) throw new CommandFailed('timed out waiting for the condition');
    throw error;
  }
}

function deleted(): CommandFailed {
  return new CommandFailed('object has been deleted');
}

/** Gives the function that prints what is new of an object, and answers whether its roll-out is done. */
function lineOfEach({ kind }: Target, { kube, now, print }: StatusOptions) {
  let [lastLine, lastWait] = ['', ''];
  return async (object: RolledOut): Promise<boolean> => {
    const { line, isDone } = await kind.progress(object, { kube, nowMs: now() });
    const wait = isDone ? '' : waitLine(object);
    if (line !== lastLine) await print(line, object);
    if (wait !== lastWait && wait !== '') await print(wait, object);
    [lastLine, lastWait] = [line, wait];
    return isDone;
  };
}

function waitLine({ status }: RolledOut): string {
  const wait = status?.waitingFor;
  if (wait === undefined) return '';
  const { reason, unblock } = wait;
  const blockers = blockersText(wait);
  const what = blockers === '' ? '' : ` (${blockers})`;
  return `  ${reason}${what}: ${unblock}`;
}

async function checkRevision(target: Target, object: RolledOut, { kube, revision }: StatusOptions): Promise<void> {
  const { workload } = target.kind;
  if (revision === 0) return;
  if (workload === undefined) throw new CommandFailed(`${quotedName(target)} has no numbered revisions`);
  const newest = (await workload.revisions(object, kube)).at(-1)?.revision;
  if (newest !== revision) {
    throw new CommandFailed(
      `desired revision (${revision}) is different from the running revision (${newest ?? 'none'})`,
    );
  }
}
