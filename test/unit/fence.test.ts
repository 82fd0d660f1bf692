import { afterEach, describe, expect, it } from '@jest/globals';
import { crr } from '../../api/container-recreate-request/types.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { createKubeClient, type Fence, type KubeClient } from '../../kube/client.ts';
import { fenced, inTerm, type KubeWriter, NotLeading } from '../../kube/fence.ts';
import type { Term } from '../../kube/leader.ts';
import { FakeApiServer, refusal } from '../support/fake-api/fake-api-server.ts';
import { waitFor } from '../support/wait.ts';

interface TestTerm extends Term {
  end(): void;
}

function termOf(): TestTerm {
  const lost = new AbortController();
  return {
    isLeading: () => !lost.signal.aborted,
    lost: lost.signal,
    end: () => lost.abort(new Error('somebody else holds the lease')),
  };
}

function recorder() {
  const calls: unknown[][] = [];
  const record =
    (verb: string) =>
    async (...call: unknown[]) => {
      calls.push([verb, ...call]);
      return { verb };
    };
  const verbs = ['get', 'list', 'create', 'patch', 'delete', 'request'];
  const kube = Object.fromEntries(verbs.map((verb) => [verb, record(verb)]));
  return { calls, kube: kube as unknown as KubeWriter };
}

const ref = { namespace: 'shop', name: 'a' };

describe('fenced', () => {
  it('passes every call on, with all that it carries, while this process leads', async () => {
    const { calls, kube } = recorder();
    const term = termOf();
    const writer = fenced(kube, () => term);
    const fence = { hindrance: expect.any(Function), ended: term.lost };
    await writer.get(crr, ref);
    await writer.list(crr, { limit: 1 });
    await writer.create(crr, { metadata: ref });
    await writer.patch(crr, ref, 'merge', { a: 1 }, { subresource: 'status' });
    await writer.delete(crr, ref, { preconditions: { uid: 'u' } });
    await writer.request('POST', '/eviction', { body: {} });
    expect(calls).toEqual([
      ['get', crr, ref, { fence }],
      ['list', crr, { limit: 1, fence }],
      ['create', crr, { metadata: ref }, { fence }],
      ['patch', crr, ref, 'merge', { a: 1 }, { subresource: 'status', fence }],
      ['delete', crr, ref, { preconditions: { uid: 'u' }, fence }],
      ['request', 'POST', '/eviction', { body: {}, fence }],
    ]);
  });

  it('asks before each write, and makes none once another may lead', async () => {
    const { calls, kube } = recorder();
    const term = termOf();
    const writer = fenced(kube, () => term);
    await writer.patch(crr, ref, 'merge', {});
    term.end();
    await expect(writer.patch(crr, ref, 'merge', {})).rejects.toThrow(NotLeading);
    await expect(writer.create(crr, {})).rejects.toThrow(NotLeading);
    await expect(writer.delete(crr, ref)).rejects.toThrow(NotLeading);
    await expect(writer.request('POST', '/eviction')).rejects.toThrow(NotLeading);
    await writer.get(crr, ref);
    await writer.request('GET', '/version');
    expect(calls.map(([verb]) => verb)).toEqual(['patch', 'get', 'request']);
  });

  it('H9: a pass of an earlier term writes nothing in a later one of the same process', async () => {
    const { calls, kube } = recorder();
    const [first, third] = [termOf(), termOf()];
    let now: Term = first;
    const writer = fenced(kube, () => now);
    const resumed = Promise.withResolvers<void>();
    const pass = inTerm(first, async () => {
      await writer.patch(crr, ref, 'merge', { planned: 'in term 1' });
      await resumed.promise;
      await writer.create(crr, { metadata: ref });
    });
    first.end();
    now = third;
    resumed.resolve();
    await expect(pass).rejects.toThrow(NotLeading);
    await inTerm(third, () => writer.delete(crr, ref));
    expect(calls.map(([verb]) => verb)).toEqual(['patch', 'delete']);
  });

  it('fences writes outside of any pass by the term that is given', async () => {
    const { calls, kube } = recorder();
    await expect(fenced(kube, () => undefined).create(crr, {})).rejects.toThrow(NotLeading);
    await fenced(kube, () => termOf()).create(crr, {});
    expect(calls).toHaveLength(1);
  });
});

describe('a fenced call on its way', () => {
  const started: { close(): Promise<void> }[] = [];
  afterEach(async () => {
    for (const each of started.splice(0).reverse()) await each.close();
  });

  async function connect(connections?: number): Promise<{ server: FakeApiServer; kube: KubeClient }> {
    const server = await FakeApiServer.start();
    const kube = createKubeClient({
      ...{ credentials: server.credentials, userAgent: 'test', qps: 1000, burst: 100 },
      ...(connections !== undefined && { connections }),
    });
    started.push({ close: () => server.stop() }, kube);
    return { server, kube };
  }

  const pods = kubeResource.pods;
  const web = { metadata: { namespace: 'shop', name: 'web' } };
  const posts = (server: FakeApiServer) => server.requests.filter(({ method }) => method === 'POST');

  it('H9: a write that waits out a 429 is not sent once the lease is lost, however late the loss is noticed', async () => {
    const { server, kube } = await connect();
    let isLeading = true;
    // a process that was frozen: it does not lead, and its signal has not fired yet
    const term: Term = { isLeading: () => isLeading, lost: new AbortController().signal };
    const writer = fenced(kube, () => term);
    server.fault = ({ method }) =>
      method === 'GET' ? { ...refusal(429, 'TooManyRequests', 'busy'), headers: { 'retry-after': '1' } } : undefined;
    await expect(writer.get(pods, { namespace: 'shop', name: 'web' })).rejects.toThrow('busy');
    const creating = writer.create(pods, web);
    isLeading = false;
    await expect(creating).rejects.toThrow(NotLeading);
    expect(posts(server)).toEqual([]);
  });

  it('H9: a write that waits for a connection asks when it gets it', async () => {
    const { server, kube } = await connect(1);
    let isLeading = true;
    const term: Term = { isLeading: () => isLeading, lost: new AbortController().signal };
    const writer = fenced(kube, () => term);
    server.fault = () => ({ kind: 'stall' });
    const blocker = kube.get(pods, { namespace: 'shop', name: 'web' }, { deadlineMs: 100 });
    const creating = writer.create(pods, web);
    isLeading = false;
    await expect(blocker).rejects.toThrow('no answer');
    await expect(creating).rejects.toThrow(NotLeading);
    expect(posts(server)).toEqual([]);
  });

  it('H9: what waits and what is under way ends with the term', async () => {
    const { server, kube } = await connect();
    const term = termOf();
    const writer = fenced(kube, () => term);
    server.fault = () => ({ kind: 'stall' });
    const underWay = writer.create(pods, web);
    const reading = writer.list(pods);
    await waitFor('both to be sent', () => server.requests.length === 2);
    term.end();
    await expect(underWay).rejects.toThrow(NotLeading);
    await expect(reading).rejects.toThrow(NotLeading);
  });

  it('H9: waiting for its turn counts against the deadline of a call with a fence, and of no other', async () => {
    const { server, kube } = await connect();
    const fence: Fence = { hindrance: () => undefined, ended: new AbortController().signal };
    server.fault = ({ method }) =>
      method === 'GET' ? { ...refusal(429, 'TooManyRequests', 'busy'), headers: { 'retry-after': '1' } } : undefined;
    await expect(kube.list(pods)).rejects.toThrow('busy');
    const late = kube.create(pods, web, { fence, deadlineMs: 50 });
    const patient = kube.create(pods, web, { deadlineMs: 500 });
    await expect(late).rejects.toThrow('not sent within 0.05 s');
    await expect(patient).resolves.toMatchObject(web);
    expect(posts(server)).toHaveLength(1);
  });

  it('counts no request that a fence has kept back', async () => {
    const server = await FakeApiServer.start();
    const counted: string[] = [];
    const kube = createKubeClient({
      ...{ credentials: server.credentials, userAgent: 'test', qps: 1000, burst: 100 },
      onCall: ({ verb, status }) => void counted.push(`${verb} ${status}`),
    });
    started.push({ close: () => server.stop() }, kube);
    const fence: Fence = { hindrance: () => new NotLeading('no'), ended: new AbortController().signal };
    await expect(kube.create(pods, web, { fence })).rejects.toThrow(NotLeading);
    await kube.list(pods, { fence });
    expect(counted).toEqual(['GET 200']);
  });
});
