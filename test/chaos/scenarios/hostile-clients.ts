import { readFileSync } from 'node:fs';
import { connect as connectTcp } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { type ContainerRecreateRequest, crr } from '../../../api/container-recreate-request/types.ts';
import { kubeResource } from '../../../api/core/well-known.ts';
import { controlPlanePorts } from '../../../deploy/local/instance.ts';
import { KubeError } from '../../../kube/failures.ts';
import { isLate } from '../../support/patience.ts';
import type { Report, Scenario } from '../campaign.ts';
import { judge } from '../chaos-subject.ts';
import { killed, recordOf } from '../faults.ts';
import { RecreateRequests } from '../subjects/recreate-requests.ts';
import type { RecreatedPodPlan } from '../subjects/recreated-pod.ts';
import { seconds, untilDone, type World } from '../world.ts';
import { judgeProcesses, processes } from './hostile-requests.ts';

const bystander: RecreatedPodPlan = {
  name: 'bystander',
  step: 'beside hostile clients',
  hold: { kind: 'none' },
  containers: [{ name: 'first' }, { name: 'second' }],
  requests: [],
};

const path = '/mutate-apps-kruise-io-containerrecreaterequest';

/** Somebody who talks to the webhook's own port, and not as the API server does. */
interface Client {
  readonly name: string;
  readonly count: number;
  readonly tls: boolean;
  /** Sent at once; then one byte of `slowly` every half second. */
  readonly first: string | Buffer;
  readonly slowly?: string;
}

const headers = (more: string): string =>
  `POST ${path} HTTP/1.1\r\nHost: webhook\r\nContent-Type: application/json\r\n${more}`;

const clients: readonly Client[] = [
  { name: 'garbage instead of TLS', count: 40, tls: false, first: Buffer.alloc(2_000, 'x') },
  { name: 'silence instead of TLS', count: 40, tls: false, first: '' },
  {
    name: 'a TLS record that never ends',
    count: 20,
    tls: false,
    first: Buffer.from([22, 3, 1, 64, 0, 1]),
    slowly: 'aaaaaaaa',
  },
  { name: 'garbage instead of HTTP', count: 40, tls: true, first: '\u0000\u0001 GET nothing\r\n\r\n' },
  { name: 'headers byte by byte', count: 60, tls: true, first: 'POST / HT', slowly: 'TP/1.1\r\nHost: webhook\r\n' },
  {
    name: 'a body byte by byte',
    count: 60,
    tls: true,
    first: headers('Content-Length: 900\r\n\r\n'),
    slowly: '{"kind":"AdmissionReview"',
  },
  {
    name: 'a body that is announced too long',
    count: 20,
    tls: true,
    first: headers('Content-Length: 99999999999\r\n\r\n{'),
  },
  { name: '12 MB in chunks', count: 4, tls: true, first: headers(`Transfer-Encoding: chunked\r\n\r\n${chunks(12)}`) },
  { name: 'headers of 64 kB', count: 20, tls: true, first: headers(`X-Long: ${'h'.repeat(65_536)}\r\n\r\n`) },
  { name: 'a body nested 100,000 deep', count: 4, tls: true, first: withBody('['.repeat(100_000)) },
  { name: 'no AdmissionReview', count: 40, tls: true, first: withBody('{"kind":"Pod"}') },
  { name: 'a review without an object', count: 40, tls: true, first: withBody(reviewOf(null)) },
  { name: 'a review of a text', count: 40, tls: true, first: withBody(reviewOf('text')) },
  {
    name: 'another method and path',
    count: 20,
    tls: true,
    first: 'DELETE /../../etc/passwd HTTP/1.1\r\nHost: w\r\n\r\n',
  },
];

function chunks(megabytes: number): string {
  return `100000\r\n${'1'.repeat(0x100000)}\r\n`.repeat(megabytes);
}

function withBody(body: string): string {
  return headers(`Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
}

function reviewOf(object: unknown): string {
  const request = {
    uid: 'u',
    operation: 'CREATE',
    kind: { group: 'apps.kruise.io', kind: 'ContainerRecreateRequest' },
    object,
  };
  return JSON.stringify({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request });
}

/** Clients of all kinds at once on the webhook's port; meanwhile good requests pass. */
export async function hostileClients(world: World, report: Report, forSeconds: number): Promise<void> {
  const pids = processes(world);
  const bystanders = await RecreateRequests.prepare(world, { plans: [bystander] });
  const over = new AbortController();
  const attack = clients.flatMap((client) =>
    Array.from({ length: client.count }, () => assail(world, client, over.signal)),
  );
  for (const { name } of clients) report.fault(`webhook gets ${name}`);

  const tookMs: number[] = [];
  const until = performance.now() + forSeconds * 1000;
  const atLast = performance.now() + 240_000;
  // at least one has to pass while the attack lasts, however long the machine stalls
  while (performance.now() < (tookMs.length > 0 ? until : atLast)) {
    const startedAtMs = performance.now();
    try {
      await world.kube.create(crr, goodRequest(bystanders), { dryRun: true });
      tookMs.push(performance.now() - startedAtMs);
    } catch (error) {
      if (isLate(String(error))) report.outcome('good requests came too late');
      else report.violation(`a good request was refused under attack: ${String(error)}`);
    }
    await seconds(0.1);
  }
  if (tookMs.length === 0) report.violation('no good request passed under attack');
  over.abort();
  await Promise.all(attack);
  tookMs.sort((a, b) => a - b);
  const memory = residentMegabytes(recordOf(world, 'webhook').pid);
  const slowest = Math.round(tookMs.at(-1) ?? 0);
  report.figure(
    `${attack.length} hostile connections; meanwhile ${tookMs.length} good requests, the slowest in ${slowest} ms; webhook at ${memory} MB`,
  );
  report.outcome('good requests passed', tookMs.length);
  if (memory > 600) report.violation(`the webhook takes ${memory} MB`);
  await judge(bystanders, report);
  await bystanders.remove();
  await judgeProcesses(world, report, pids);
}

/** One connection after the other, until it is over. */
async function assail(world: World, client: Client, over: AbortSignal): Promise<void> {
  const host = world.instance.addresses.controlPlane;
  const port = controlPlanePorts.webhook;
  for (let count = 0; count < 20 && !over.aborted; count += 1) {
    await new Promise<void>((resolve) => {
      const socket = client.tls ? connectTls({ host, port, rejectUnauthorized: false }) : connectTcp({ host, port });
      const drip = setInterval(() => drop(), 500);
      const rest = [...(client.slowly ?? '')];
      const drop = (): void => {
        const byte = rest.shift();
        if (byte !== undefined && socket.writable) socket.write(byte);
      };
      const giveUp = setTimeout(() => socket.destroy(), 20_000);
      const stop = (): void => void socket.destroy();
      over.addEventListener('abort', stop, { once: true });
      socket.once(client.tls ? 'secureConnect' : 'connect', () => socket.write(client.first));
      socket.on('error', () => undefined);
      socket.on('data', () => undefined);
      socket.once('close', () => {
        clearInterval(drip);
        clearTimeout(giveUp);
        over.removeEventListener('abort', stop);
        resolve();
      });
    });
    await seconds(0.2);
  }
}

function goodRequest({ namespace }: RecreateRequests): object {
  return {
    metadata: { namespace, name: 'good' },
    spec: { podName: 'bystander', containers: [{ name: 'first' }] },
  };
}

function residentMegabytes(pid: number): number {
  const match = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  return Math.round(Number(match?.[1] ?? 0) / 1024);
}

/** With the webhook dead: what it has nothing to do with goes on, and no bad request gets in. */
async function webhookDown(world: World, report: Report): Promise<void> {
  const served = { ...bystander, name: 'served', requests: [{ name: 'before', containers: ['first'] }] };
  const bystanders = await RecreateRequests.prepare(world, { plans: [bystander, served] });
  for (const { reach } of bystanders.steps) await reach();
  await bystanders.settled();
  const fault = killed(world, 'webhook');
  report.fault(fault.name);
  const { kube } = world;
  const { namespace } = bystanders;
  const registration = 'kruise-mutating-webhook-configuration';
  const failurePolicy = async (policy: 'Ignore' | 'Fail'): Promise<void> => {
    const live = await kube.get<Registration>(kubeResource.mutatingWebhookConfigurations, { name: registration });
    const index = live.webhooks.findIndex(({ name }) => name.startsWith('mcontainerrecreaterequest'));
    const change = [{ op: 'replace', path: `/webhooks/${index}/failurePolicy`, value: policy }];
    await kube.patch(kubeResource.mutatingWebhookConfigurations, { name: registration }, 'json', change);
  };
  const good = goodRequest(bystanders);
  try {
    await fault.inject();
    const startedAtMs = performance.now();
    // pods and namespaces of others, and pods that would have been changed
    await mustPass(report, 'a pod', () => kube.create(kubeResource.pods, plainPod(namespace, 'unrelated')));
    await mustPass(report, 'a pod of ours', () => kube.create(kubeResource.pods, ownedPod(namespace)));
    await mustPass(report, 'a namespace', () =>
      kube.create(kubeResource.namespaces, { metadata: { name: `${namespace}-2` } }),
    );
    await mustPass(report, 'its deletion', () => kube.delete(kubeResource.namespaces, { name: `${namespace}-2` }));
    await mustPass(report, 'a list of requests', () => kube.list(crr, { namespace }));
    report.figure(`five unrelated writes in ${Math.round(performance.now() - startedAtMs)} ms`);

    // fails closed: what admission has not seen is not carried out
    await mustFail(report, 'a good request', /failed calling webhook/, () => kube.create(crr, good));
    await mustFail(report, 'a completed request that begins again', /a completed request stays completed/, () =>
      kube.patch(
        crr,
        { namespace, name: 'before' },
        'merge',
        { status: { phase: 'Recreating' } },
        { subresource: 'status' },
      ),
    );

    // and where somebody has chosen to let requests in without admission, the schema and CEL still stand
    await failurePolicy('Ignore');
    await untilDone('the API server to let requests in', () => kube.create(crr, good, { dryRun: true }));
    for (const [what, spec, text] of badSpecs) {
      const bad = { metadata: { namespace, name: 'bad' }, spec };
      await mustFail(report, what, text, () => kube.create(crr, bad));
    }
    await mustFail(report, 'a change of the spec', /spec is immutable/, () =>
      kube.patch(crr, { namespace, name: 'before' }, 'merge', { spec: { podName: 'bystander' } }),
    );
    await mustPass(report, 'a good request that nobody fills in', () => kube.create(crr, good));
    await seconds(5);
    await failurePolicy('Fail');
  } finally {
    await failurePolicy('Fail').catch(() => undefined);
    await fault.heal();
  }
  // nobody has admitted it, so nobody carries it out
  await judge(bystanders, report);
  const unfilled = await world.find<ContainerRecreateRequest>(crr, { namespace, name: 'good' });
  if (unfilled?.status?.phase)
    report.violation(`a request without admission was begun: ${JSON.stringify(unfilled.status)}`);
  await untilDone('admission to work again', () =>
    kube.create(crr, goodRequest(bystanders), { dryRun: true }).catch((error: unknown) => {
      if (!(error instanceof KubeError) || error.reason !== 'AlreadyExists') throw error;
    }),
  );
  report.outcome('refused without the webhook', badSpecs.length + 3);
  await bystanders.remove();
}

interface Registration {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: ContainerRecreateRequest['metadata'];
  readonly webhooks: readonly { readonly name: string }[];
}

const badSpecs: readonly (readonly [what: string, spec: object, text: RegExp])[] = [
  ['a request without a pod', { containers: [{ name: 'first' }] }, /spec\.podName/],
  ['a request without containers', { podName: 'bystander', containers: [] }, /spec\.containers/],
  [
    'an unknown failurePolicy',
    { podName: 'bystander', containers: [{ name: 'first' }], strategy: { failurePolicy: 'Maybe' } },
    /spec\.strategy\.failurePolicy/,
  ],
  [
    'a negative grace period',
    { podName: 'bystander', containers: [{ name: 'first' }], strategy: { terminationGracePeriodSeconds: -1 } },
    /spec\.strategy\.terminationGracePeriodSeconds/,
  ],
  [
    'a deadline in words',
    { podName: 'bystander', containers: [{ name: 'first' }], activeDeadlineSeconds: 'soon' },
    /spec\.activeDeadlineSeconds/,
  ],
];

async function mustPass(report: Report, what: string, act: () => Promise<unknown>): Promise<void> {
  await act().catch((error: unknown) =>
    report.violation(`${what} was refused with the webhook down: ${String(error)}`),
  );
}

async function mustFail(report: Report, what: string, text: RegExp, act: () => Promise<unknown>): Promise<void> {
  try {
    await act();
    report.violation(`${what} was let in`);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    if (!text.test(message)) report.violation(`${what} was refused with other words than ${text}: ${message}`);
  }
}

function plainPod(namespace: string, name: string): object {
  return {
    metadata: { namespace, name },
    spec: { containers: [{ name: 'first', image: 'busybox:1.36', command: ['sleep', '1'] }], restartPolicy: 'Never' },
  };
}

/** One that admission would have given a readiness gate. */
function ownedPod(namespace: string): object {
  const { metadata, ...rest } = plainPod(namespace, 'ours') as { metadata: object };
  const owner = {
    apiVersion: 'apps.kruise.io/v1alpha1',
    kind: 'CloneSet',
    name: 'none',
    uid: 'none',
    controller: true,
  };
  return { metadata: { ...metadata, ownerReferences: [owner] }, ...rest };
}

export const withoutWebhook: Scenario = {
  name: 'webhook-down',
  about: 'without the webhook others are unaffected, and bad requests are refused all the same',
  run: (world, _random, report) => webhookDown(world, report),
};

/** Admission under attack, and away. */
export const admissionScenarios: readonly Scenario[] = [
  {
    name: 'hostile-clients',
    about: 'garbage, slow clients and oversized bodies on the webhook’s own port',
    run: (world, _random, report) => hostileClients(world, report, 45),
  },
  withoutWebhook,
];
