import { describe, expect, it } from '@jest/globals';
import { deploymentName, versionState } from '../../workers/worker-versions.ts';

const workflowTasks = 1;

/** A server whose workers have polled so many seconds ago, by build; it answers for the builds that it is asked for. */
function serverWith(polls: Readonly<Record<string, number>>, current: string) {
  const at = (secondsAgo: number) => ({ seconds: 1_800_000_000 - secondsAgo, nanos: 0 });
  return {
    options: { namespace: 'default' },
    withDeadline: (_deadline: unknown, call: () => Promise<unknown>) => call(),
    workflow: { count: async () => ({ count: 3 }) },
    workflowService: {
      describeWorkerDeployment: async () => ({
        workerDeploymentInfo: { routingConfig: { currentDeploymentVersion: { buildId: current } } },
      }),
      describeTaskQueue: async ({ versions }: { versions: { buildIds: readonly string[] } }) => ({
        versionsInfo: Object.fromEntries(
          versions.buildIds.map((name) => {
            const secondsAgo = polls[name.slice(deploymentName.length + 1)];
            const poller = { identity: 'worker', lastAccessTime: at(secondsAgo ?? 0) };
            return [name, { typesInfo: { [workflowTasks]: { pollers: secondsAgo === undefined ? [] : [poller] } } }];
          }),
        ),
      }),
    },
  } as unknown as Parameters<typeof versionState>[0];
}

describe('the state of a version of the workers', () => {
  it('F1: counts a worker as gone that has not polled since the current one has, though the server remembers it', async () => {
    const polls = { old: 100, new: 1 };
    expect(await versionState(serverWith(polls, 'new'), 'old')).toEqual({ isCurrent: false, isPolled: false, runs: 3 });
    expect(await versionState(serverWith(polls, 'new'), 'new')).toEqual({ isCurrent: true, isPolled: true, runs: 3 });
  });

  it('F1: counts a worker as polling that waits in a poll of a minute', async () => {
    const state = await versionState(serverWith({ old: 60, new: 1 }, 'new'), 'old');
    expect(state?.isPolled).toBe(true);
  });
});
