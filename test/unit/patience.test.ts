import { describe, expect, it } from '@jest/globals';
import { kubeResource } from '../../api/core/well-known.ts';
import type { KubeClient } from '../../kube/client.ts';
import { KubeError } from '../../kube/failures.ts';
import { isLate, patient } from '../support/patience.ts';

const late = new KubeError({ status: 500, message: 'failed calling webhook: context deadline exceeded' });
const there = new KubeError({ status: 409, reason: 'AlreadyExists', message: 'pods "web" already exists' });
const pod = { metadata: { namespace: 'shop', name: 'web' } };

/** A client with these answers to creations, one after the other. */
function answering(...answers: readonly unknown[]): KubeClient {
  const left = [...answers];
  const next = async () => {
    const answer = left.shift();
    if (answer instanceof Error) throw answer;
    return answer;
  };
  return patient({ create: next, get: async () => 'the one that is there' } as unknown as KubeClient);
}

describe('patience', () => {
  it('covers timeouts, but not refusals or outages', () => {
    expect(isLate('Internal error occurred: failed calling webhook "a.b": context deadline exceeded')).toBe(true);
    expect(isLate('Error from server: etcdserver: request timed out')).toBe(true);
    expect(isLate('no answer within 30 s')).toBe(true);
    expect(isLate('failed calling webhook "a.b": connect: connection refused')).toBe(false);
    expect(isLate('admission webhook "a.b" denied the request: spec.podName: Required value')).toBe(false);
    expect(isLate('error: timed out waiting for the condition')).toBe(false);
  });

  it('asks again, and takes what a late answer has made for its own', async () => {
    await expect(answering(late, 'made').create(kubeResource.pods, pod)).resolves.toBe('made');
    await expect(answering(late, there).create(kubeResource.pods, pod)).resolves.toBe('the one that is there');
    await expect(answering(there, 'made').create(kubeResource.pods, pod)).rejects.toBe(there);
  });
});
