import { describe, expect, it } from '@jest/globals';
import { crr } from '../../api/container-recreate-request.ts';
import { fenced, type KubeWriter, NotLeading } from '../../watcher/fence.ts';

function recorder() {
  const calls: unknown[][] = [];
  const record =
    (verb: string) =>
    async (...call: unknown[]) => {
      calls.push([verb, ...call]);
      return { verb };
    };
  const kube = Object.fromEntries(['get', 'list', 'create', 'patch', 'delete'].map((verb) => [verb, record(verb)]));
  return { calls, kube: kube as unknown as KubeWriter };
}

describe('fenced', () => {
  const ref = { namespace: 'shop', name: 'a' };

  it('passes every call on, with all that it carries, while this process leads', async () => {
    const { calls, kube } = recorder();
    const writer = fenced(kube, () => true);
    await writer.get(crr, ref);
    await writer.list(crr, { limit: 1 });
    await writer.create(crr, { metadata: ref });
    await writer.patch(crr, ref, 'merge', { a: 1 }, { subresource: 'status' });
    await writer.delete(crr, ref, { preconditions: { uid: 'u' } });
    expect(calls).toEqual([
      ['get', crr, ref],
      ['list', crr, { limit: 1 }],
      ['create', crr, { metadata: ref }],
      ['patch', crr, ref, 'merge', { a: 1 }, { subresource: 'status' }],
      ['delete', crr, ref, { preconditions: { uid: 'u' } }],
    ]);
  });

  it('asks before each write, and makes none once another may lead', async () => {
    const { calls, kube } = recorder();
    let leads = true;
    const writer = fenced(kube, () => leads);
    await writer.patch(crr, ref, 'merge', {});
    leads = false;
    await expect(writer.patch(crr, ref, 'merge', {})).rejects.toThrow(NotLeading);
    await expect(writer.create(crr, {})).rejects.toThrow(NotLeading);
    await expect(writer.delete(crr, ref)).rejects.toThrow(NotLeading);
    await writer.get(crr, ref);
    expect(calls.map(([verb]) => verb)).toEqual(['patch', 'get']);
  });
});
