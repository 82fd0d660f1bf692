import { newGate } from './gate.ts';
import type { PlayedPod } from './kubelet-player.ts';
import type { RequestOptions, TestRequest } from './requests.ts';
import type { Windlass } from './windlass.ts';

export interface InTheMiddle {
  readonly request: TestRequest;
  readonly pod: PlayedPod;
  /** Makes the first container ready. */
  readonly ready: () => void;
}

/** A pod and an ordered request for it whose first container has been stopped, and becomes ready with `ready`. */
export async function inTheMiddle(
  windlass: Windlass,
  {
    pod: containers = ['app', 'proxy'],
    ...options
  }: Partial<Omit<RequestOptions, 'pod'>> & { readonly pod?: readonly string[] } = {},
): Promise<InTheMiddle> {
  const wanted = options.containers ?? containers;
  const ready = newGate();
  const pod = await windlass.runPod(containers);
  pod.script(wanted[0] ?? '', { readyTakes: ready.opened });
  const strategy = { orderedRecreate: true, ...options.strategy };
  const request = await windlass.request({ ...options, pod, containers: wanted, strategy });
  await request.waitsFor('ContainerNotReady');
  return { request, pod, ready: ready.open };
}
