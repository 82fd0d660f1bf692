// `npm start`: starts everything, then the sample request on a sample pod, watched live, and prints what to try next.
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { parse } from 'yaml';
import { restartContainersId } from '../../api/container-recreate-request/operation.ts';
import { type ApiServer, call, find } from './api-server.ts';
import { findInstance, repository } from './instance.ts';
import { type PlatformStatus, up, withApi } from './platform.ts';
import type { Progress } from './progress.ts';
import { toolPath } from './tools.ts';
import { waitFor } from './wait.ts';

/** Starts the platform and demonstrates it; false when the sample request failed. */
export async function start(name: string, progress: Progress, featureGates?: string): Promise<boolean> {
  const platform = await up({ name, nodes: 2, windlass: true, progress, featureGates });
  const instance = findInstance(name);
  if (!instance) throw new Error(`Instance "${name}" went down`);
  const outcome = await withApi(instance, (api) => showRestart(api, progress));
  console.log(whatNext(platform, outcome.operation));
  return outcome.ok;
}

interface Pod {
  readonly metadata: {
    readonly namespace: string;
    readonly name: string;
    readonly uid: string;
    readonly deletionTimestamp?: string;
  };
  readonly status?: {
    readonly phase?: string;
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
    readonly containerStatuses?: readonly {
      readonly name: string;
      readonly ready: boolean;
      readonly restartCount: number;
      readonly containerID?: string;
    }[];
  };
}

interface Request {
  readonly metadata: { readonly uid: string };
  readonly spec: { readonly containers: readonly { readonly name: string }[] };
  readonly status?: {
    readonly phase?: string;
    readonly message?: string;
    readonly containerRecreateStates?: readonly {
      readonly name: string;
      readonly phase: string;
      readonly message?: string;
    }[];
  };
}

/** The samples of `npm start`, in the repository. */
export const samples = {
  pod: 'deploy/samples/pod-three-containers.yaml',
  request: 'deploy/samples/container-recreate-request.yaml',
  columns: 'deploy/samples/restart-progress.columns',
} as const;

async function showRestart(api: ApiServer, progress: Progress): Promise<{ ok: boolean; operation: string }> {
  const podSample = readSample(samples.pod);
  const requestSample = readSample(samples.request);
  const pods = '/api/v1/namespaces/default/pods';
  const requests = '/apis/apps.kruise.io/v1beta1/namespaces/default/containerrecreaterequests';
  const podPath = `${pods}/${podSample.metadata.name}`;
  const requestPath = `${requests}/${requestSample.metadata.name}`;

  const before = await progress.step(`Pod ${podSample.metadata.name} (${samples.pod})`, async () => {
    // From an earlier start: a request is carried out once, and a pod may have completed.
    if (await find(api, requestPath)) await call(api, 'DELETE', requestPath);
    await waitFor('deletion of the previous request', async () => !(await find(api, requestPath)));
    const pod = await find<Pod>(api, podPath);
    if (pod && !isFresh(pod)) {
      await call(api, 'DELETE', podPath);
      await waitFor('deletion of the previous pod', async () => !(await find(api, podPath)));
    }
    if (!(await find(api, podPath))) await call(api, 'POST', pods, podSample);
    return await waitFor('the pod to be ready', async () => {
      const now = await find<Pod>(api, podPath);
      const ready = now?.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True');
      return ready ? now : undefined;
    });
  });

  progress.say(`Restarting its containers in order (${samples.request})`);
  const created = await call<Request>(api, 'POST', requests, requestSample);
  const look = async (): Promise<Request> => {
    const now = await call<Request>(api, 'GET', requestPath);
    if (now.metadata.uid !== created.metadata.uid) throw new Error('The request was replaced');
    return now;
  };
  let ok = true;
  for (const { name } of created.spec.containers) {
    ok = (await showContainer({ name, before, look, pod: () => call<Pod>(api, 'GET', podPath) }, progress)) && ok;
  }
  const ended = await progress.step('Request Completed', () =>
    waitFor('the request to complete', async () => {
      const now = await look();
      return now.status?.phase === 'Completed' ? now : undefined;
    }),
  );
  if (!ok && ended.status?.message) progress.say(`Message of the request: ${ended.status.message}`);
  return { ok, operation: restartContainersId(before.metadata) };
}

/** Prints the progress of one container until the request is done with it. */
async function showContainer(
  {
    name,
    before,
    look,
    pod,
  }: {
    readonly name: string;
    readonly before: Pod;
    readonly look: () => Promise<Request>;
    readonly pod: () => Promise<Pod>;
  },
  progress: Progress,
): Promise<boolean> {
  const old = statusOf(before, name);
  const recreated = async (note: (text: string) => void): Promise<string> => {
    const state = await waitFor(
      `container ${name} to be recreated`,
      async () => {
        const { status } = await look();
        const now = status?.containerRecreateStates?.find((candidate) => candidate.name === name);
        note(now?.phase ?? 'Pending');
        if (now?.phase === 'Succeeded' || now?.phase === 'Failed') return now;
        return status?.phase === 'Completed' ? { phase: 'Failed', message: status.message } : undefined;
      },
      { seconds: 600, everyMs: 100 },
    );
    if (state.phase === 'Failed') throw new Error(state.message ?? 'phase Failed');
    const now = statusOf(await pod(), name);
    return `${shortId(old?.containerID)} -> ${shortId(now?.containerID)}, restarts: ${now?.restartCount}`;
  };
  try {
    progress.say(`    ${await progress.step(`  container ${name}`, recreated)}`);
    return true;
  } catch (error) {
    progress.say(`    ${error instanceof Error ? error.message : String(error)}`);
    return false;
  }
}

/** Only such a pod restarts at once: from a container's second restart on, the kubelet backs off for 10 s and more. */
function isFresh({ metadata, status }: Pod): boolean {
  const restarted = status?.containerStatuses?.some(({ restartCount }) => restartCount > 0);
  return !metadata.deletionTimestamp && ['Pending', 'Running'].includes(status?.phase ?? '') && !restarted;
}

type ContainerStatus = NonNullable<NonNullable<Pod['status']>['containerStatuses']>[number];

function statusOf(pod: Pod, container: string): ContainerStatus | undefined {
  return pod.status?.containerStatuses?.find(({ name }) => name === container);
}

function shortId(id: string | undefined): string {
  return id?.replace(/^.*:\/\//, '').slice(0, 12) ?? 'none';
}

function readSample(file: string): { readonly metadata: { readonly name: string } } {
  return parse(readFileSync(join(repository, file), 'utf8')) as { readonly metadata: { readonly name: string } };
}

/** What `npm start` prints at its end: commands that can be pasted into any shell of this machine. */
export function whatNext(
  { kubeconfig, ui, temporal, instance }: Pick<PlatformStatus, 'kubeconfig' | 'ui' | 'temporal' | 'instance'>,
  operation: string,
): string {
  const tools = ['kubectl', 'temporal'] as const;
  const prefix = instance === 'default' ? '' : `WINDLASS_INSTANCE=${instance} `;
  const workflow = encodeURIComponent(operation);
  return `
Windlass is up. The restart in Temporal's UI:
  ${ui}/namespaces/default/workflows/${workflow}

Try next:
  export KUBECONFIG=${kubeconfig}
  export PATH=${tools.map((tool) => dirname(toolPath(tool))).join(':')}:$PATH
  kubectl replace --force -f ${samples.request}
  kubectl get crr restart-web --watch -o custom-columns-file=${samples.columns}
  temporal workflow list --address ${temporal}
(The kubelet delays each start by 10 s or more if a container is restarted again within ten minutes.)

Stop the cluster: ${prefix}npm run down`;
}
