import { readFileSync } from 'node:fs';
import { describe, expect, it } from '@jest/globals';
import { searchAttributes } from '../../api/engine/operations.ts';
import { payloadLimitBytes } from '../../process/payload-limit.ts';
import { workflowBuildId } from '../../workers/workflow-bundle.ts';
import { expectStops } from '../support/expect-stops.ts';
import { payloadsOf, summariesOf } from '../support/history.ts';
import { inTheMiddle } from '../support/in-the-middle.ts';
import { outcomeOf } from '../support/requests.ts';
import { waitFor } from '../support/wait.ts';
import { useSharedWindlass } from './windlass.ts';

const windlass = useSharedWindlass();

/** For forty containers one after the other: on a loaded machine each takes ten seconds and more. */
const fortyTimes = { deadlineMs: 850_000 };

async function listed<T>(items: AsyncIterable<T>): Promise<readonly T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

describe('an operation', () => {
  it.concurrent('is found by kind, namespace, name, node, phase and reason', async () => {
    const { node, client } = windlass();
    const { request, pod, ready } = await inTheMiddle(windlass(), { pod: ['app'] });

    const { kind, namespace, name, node: nodeName, phase, reason } = searchAttributes;
    const query = [
      `${kind} = 'ContainerRecreateRequest'`,
      `${namespace} = '${request.ref.namespace}'`,
      `${name} = '${request.ref.name}'`,
      `${nodeName} = '${node.ref.name}'`,
      `${phase} = 'Recreating'`,
      `${reason} = 'ContainerNotReady'`,
    ].join(' AND ');
    const [found] = await waitFor('the operation to be found', async (see) => {
      const all = see(await listed(client.workflow.list({ query })));
      return all.length > 0 ? all : undefined;
    });
    expect(found?.workflowId).toBe(`restart-containers/${pod.ref.namespace}/${pod.ref.name}/${pod.ref.uid}`);
    expect(found?.memo).toEqual({
      kind: 'ContainerRecreateRequest',
      namespace: request.ref.namespace,
      name: request.ref.name,
      build: await workflowBuildId(),
    });

    const described = await request.operation.describe();
    expect(await described.staticSummary()).toBe(`restart containers of pod ${pod.ref.namespace}/${pod.ref.name}`);
    ready();
    await request.ended();
    await waitFor('the operation to be found as completed', async (see) => {
      const done = `${name} = '${request.ref.name}' AND ${phase} = 'Completed'`;
      return see(await listed(client.workflow.list({ query: done }))).length > 0;
    });
  });

  it.concurrent('names the target of each of its steps', async () => {
    const pod = await windlass().runPod(['app', 'proxy']);
    const request = await windlass().request({
      pod,
      containers: ['app', 'proxy'],
      strategy: { orderedRecreate: true },
    });
    await request.ended();

    const summaries = summariesOf(await request.operation.fetchHistory());

    expect(summaries).toEqual(summaries.filter((summary) => summary !== ''));
    expect(summaries.filter((summary) => summary.startsWith('restart '))).toEqual([
      `restart app@${pod.ref.name}`,
      `restart proxy@${pod.ref.name}`,
    ]);
  });

  it.concurrent(`carries no payload over ${payloadLimitBytes} bytes, even for forty containers with long names`, async () => {
    const { node } = windlass();
    const names = Array.from({ length: 40 }, (_, index) => `container-${index}`.padEnd(63, 'x'));
    const pod = await windlass().runPod(names);
    const request = await windlass().request({ pod, containers: names, strategy: { forceRecreate: true } });

    const status = await request.ended(fortyTimes);

    expect(outcomeOf(status)).toMatchObject({ type: 'Complete' });
    expect(status.containerRecreateStates?.map(({ name }) => name)).toEqual(names);
    expectStops(node.stopsOf(pod), names);
    const payloads = payloadsOf(await request.operation.fetchHistory());
    expect(payloads.length).toBeGreaterThan(100);
    expect(payloads.filter(({ bytes }) => bytes > payloadLimitBytes)).toEqual([]);
  });

  it.concurrent('carries no payload over the limit when all forty containers fail with long texts', async () => {
    const names = Array.from({ length: 40 }, (_, index) => `container-${index}`.padEnd(63, 'x'));
    const pod = await windlass().runPod(names);
    for (const name of names) pod.script(name, { stopFails: 'runtime says no '.repeat(150) });
    const request = await windlass().request({ pod, containers: names, strategy: { failurePolicy: 'Ignore' } });

    const status = await request.ended(fortyTimes);

    expect(status.containerRecreateStates?.map(({ phase }) => phase)).toEqual(names.map(() => 'Failed'));
    const payloads = payloadsOf(await request.operation.fetchHistory());
    expect(payloads.filter(({ bytes }) => bytes > payloadLimitBytes)).toEqual([]);
  });
});

describe('the rights of the roles', () => {
  it('suffice: what the API server refused at first, while rights were being granted, it allowed later', async () => {
    const { platform } = windlass();
    const pod = await windlass().runPod(['app'], { gate: true });
    const strategy = { unreadyGracePeriodSeconds: 0, forceRecreate: true };
    const request = await windlass().request({ pod, containers: ['app'], strategy, ttlSecondsAfterFinished: 0 });
    await request.gone();

    const refused = new Map<string, boolean>();
    for (const line of readFileSync(platform.auditLog, 'utf8').split('\n')) {
      const call = parseCall(line);
      // calls that a test makes as a role are not the role's own
      if (!call?.user.startsWith('system:serviceaccount:kruise-system:') || call.agent === 'windlass-test') continue;
      const what = [call.user, call.verb, call.what].join(' ');
      if (call.code === 403) refused.set(what, true);
      else if (refused.has(what)) refused.set(what, false);
    }
    expect([...refused].filter(([, still]) => still).map(([what]) => what)).toEqual([]);
  });
});

interface AuditedCall {
  readonly user: string;
  readonly agent: string;
  readonly verb: string;
  readonly what: string;
  readonly code: number;
}

interface AuditLine {
  readonly verb: string;
  readonly user: { readonly username: string };
  readonly userAgent?: string;
  readonly objectRef?: { readonly resource?: string; readonly subresource?: string };
  readonly responseStatus?: { readonly code?: number };
}

/** One line of the API server's audit log; undefined for the last one, which may be incomplete. */
function parseCall(line: string): AuditedCall | undefined {
  try {
    const { verb, user, userAgent = '', objectRef, responseStatus }: AuditLine = JSON.parse(line);
    const what = [objectRef?.resource, objectRef?.subresource].filter(Boolean).join('/');
    return { user: user.username, agent: userAgent, verb, what, code: responseStatus?.code ?? 0 };
  } catch {
    return undefined;
  }
}
