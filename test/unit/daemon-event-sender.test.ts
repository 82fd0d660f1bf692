import { describe, expect, it } from '@jest/globals';
import type { Event } from '../../api/core/event.ts';
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import { EventSender } from '../../daemon/event-sender.ts';
import { KubeError, noAnswer } from '../../kube/failures.ts';

const pod = { namespace: 'shop', name: 'web-7', uid: 'pod-1' };
const killing = { type: 'Normal', reason: 'Killing', message: 'Stopping container app' } as const;

/** An API server with these answers first, and successful ones afterwards. */
function apiServer(...answers: readonly (() => never)[]) {
  const left = [...answers];
  const created: Event[] = [];
  const create = async <T extends KubeObject>(_resource: Resource, object: object): Promise<T> => {
    created.push(object as Event);
    left.shift()?.();
    return object as T;
  };
  return { created, create };
}

function refuses(error: KubeError): () => never {
  return () => {
    throw error;
  };
}

function sender(client: Pick<ReturnType<typeof apiServer>, 'create'>) {
  const warnings: string[] = [];
  const events = new EventSender({
    client,
    component: 'kruise-daemon-crr',
    nodeName: 'node-1',
    log: { warn: (_fields, message) => void warnings.push(message) },
    now: () => new Date('2026-01-02T03:04:05.678Z'),
  });
  return { events, warnings, sent: () => events.end(AbortSignal.timeout(100_000)) };
}

describe('the sender of Events', () => {
  it('says them about the container of the pod, as the component and the node', async () => {
    const api = apiServer();
    const { events, sent } = sender(api);
    events.say(pod, 'app', killing);
    await sent();
    expect(api.created).toEqual([
      {
        apiVersion: 'v1',
        kind: 'Event',
        metadata: { name: expect.stringMatching(/^web-7\.[0-9a-f-]{18}$/), namespace: 'shop' },
        involvedObject: {
          apiVersion: 'v1',
          kind: 'Pod',
          namespace: 'shop',
          name: 'web-7',
          uid: 'pod-1',
          fieldPath: 'spec.containers{app}',
        },
        type: 'Normal',
        reason: 'Killing',
        message: 'Stopping container app',
        source: { component: 'kruise-daemon-crr', host: 'node-1' },
        reportingComponent: 'kruise-daemon-crr',
        reportingInstance: 'node-1',
        firstTimestamp: '2026-01-02T03:04:05Z',
        lastTimestamp: '2026-01-02T03:04:05Z',
        count: 1,
      },
    ]);
  });

  it('sends an Event again under the same name until the API server is back, then the next', async () => {
    const api = apiServer(
      refuses(noAnswer('POST', 'connection refused')),
      refuses(new KubeError({ status: 429, message: 'slow' })),
    );
    const { events, sent, warnings } = sender(api);
    events.say(pod, 'app', killing);
    events.say(pod, 'side', killing);
    await sent();
    const [first, second, third, fourth] = api.created.map(({ metadata }) => metadata.name);
    expect([second, third]).toEqual([first, first]);
    expect(fourth).not.toBe(first);
    expect(warnings).toEqual([]);
  });

  it('takes an Event that exists already for sent, and gives up one that is refused', async () => {
    const exists = new KubeError({ status: 409, reason: 'AlreadyExists', message: 'already exists' });
    const terminating = new KubeError({ status: 403, message: 'namespace is being terminated' });
    const api = apiServer(refuses(exists), refuses(terminating));
    const { events, sent, warnings } = sender(api);
    for (const container of ['app', 'side', 'third']) events.say(pod, container, killing);
    await sent();
    expect(api.created).toHaveLength(3);
    expect(warnings).toEqual(['Cannot send an Event']);
  });

  it('never blocks while the API server is silent, keeps the newest Events, and ends on request', async () => {
    const created: string[] = [];
    const create = <T extends KubeObject>(
      _resource: Resource,
      object: object,
      options?: { signal?: AbortSignal | undefined },
    ) => {
      created.push((object as Event).message);
      return new Promise<T>((_resolve, reject) => {
        options?.signal?.addEventListener('abort', () => reject(options.signal?.reason));
      });
    };
    const { events } = sender({ create });
    for (let n = 0; n <= 600; n += 1) events.say(pod, 'app', { ...killing, message: `${n}` });
    expect(created).toEqual(['0']);

    const over = new AbortController();
    const ended = events.end(over.signal);
    over.abort();
    await ended;
    expect(created).toEqual(['0']);
  });
});
