/**
 * What the controllers of all workload kinds have in common. Each test runs the controller of the kind with its real
 * reflectors, caches and queue, and an API server in memory; simulated nodes play the kubelet, and fail the test when a
 * container is stopped to which Services still send requests.
 */

import { afterEach, describe, expect, it } from '@jest/globals';
import { type JsonObject, objectOr } from '../../api/base/json.ts';
import type { KubeObject, Resource } from '../../api/core/meta.ts';
import { nodeOf, type Pod } from '../../api/core/pod.ts';
import { isControlledBy } from '../../api/core/refs.ts';
import { kubeResource } from '../../api/core/well-known.ts';
import { lockOf } from '../../api/engine/operation-id.ts';
import type { WaitingFor } from '../../api/engine/waiting-for.ts';
import { parseFeatureGates } from '../../api/feature-gates.ts';
import { lifecycleMark } from '../../api/fleet/lifecycle.ts';
import { type ControllerRevision, isAtRevision, templateOf } from '../../api/fleet/revision.ts';
import type { RollOutOrders } from '../../api/fleet/roll-out-orders.ts';
import { KubeError } from '../../kube/failures.ts';
import { type EndpointSlice, serviceLabel } from '../../plan/drain.ts';
import { type BatchOutcome, batchOf, type ChosenPod, type PodOutcome } from '../../plan/fleet/batch.ts';
import { isInPlaceComplete } from '../../plan/fleet/in-place/completion.ts';
import type { Answer } from '../../plan/fleet/permit.ts';
import { isPodReady } from '../../plan/fleet/pods.ts';
import type { ControllerOf } from '../../watcher/controller.ts';
import type { PermitLife } from '../../watcher/permits/held.ts';

import { type ControllerContextOptions, type RunningController, runController } from './controller-context.ts';
import { type Meet, MemoryCluster, type SeenCall } from './fake-api/memory-cluster.ts';
import { strategicMerge } from './fake-api/strategic-merge.ts';
import { aNode } from './objects/node.ts';
import { alive, PlayedRollOut } from './played-roll-out.ts';
import { PodOnNode } from './pod-on-node.ts';
import { waitFor } from './wait.ts';

/** A kind to be tested. */
export interface FleetKindUnderTest {
  readonly resource: Resource;
  /** Tells it apart from others of the kind. Absent: there is one. */
  readonly variant?: string;
  readonly controllerOf: ControllerOf;
  /** The spec of a workload of three pods with this template, of which at most one may be unavailable. */
  readonly spec: (template: JsonObject, selector: JsonObject) => object;
  /** The fields that its CRD requires of a status. Absent: none. */
  readonly statusFields?: readonly string[] | undefined;
  /** The name of a pod that it would adopt. Absent: it adopts no pods. */
  readonly adoptable?: string;
  /** Its pods are updated in place without a hook before. Absent: there is one. */
  readonly hasNoUpdateHook?: true;
}

const nodes = ['node-1', 'node-2', 'node-3'] as const;
const replicas = nodes.length;
const [name, uid] = ['web', 'web-uid'];
const place = { namespace: 'shop', name };
const selector = { matchLabels: { app: 'web' } };
const refusal = () => new KubeError({ status: 403, message: 'admission webhook "guard" denied the request: frozen' });
const stranger = { apiVersion: 'apps/v1', kind: 'StatefulSet', name, uid: 'another-uid', controller: true };
const malformed = { matchExpressions: [{ key: 'app', operator: 'Near', values: ['web'] }] };

function template(image: string): JsonObject {
  return { metadata: { labels: { app: 'web' } }, spec: { containers: [{ name: 'main', image }] } };
}

/** Tells the update of the last of the pods: whether a call changes containers, and those of all others were changed before. */
function lastUpdate(): (call: SeenCall) => boolean {
  const updated = new Set<string>();
  return ({ verb, plural, name: podName, body }) => {
    const isUpdate = verb === 'patch' && plural === 'pods' && objectOr(objectOr(body as JsonObject).spec).containers;
    if (!isUpdate) return false;
    if (updated.size === replicas - 1 && !updated.has(podName)) return true;
    updated.add(podName);
    return false;
  };
}

/** A workload with its controller, its pods and their nodes. */
class Conformance {
  readonly cluster = new MemoryCluster();
  readonly wanted: string[] = [];
  isLeading = true;
  /** Fields of the spec that differ from those of the kind. */
  spec: object = {};
  /** Called before each write takes effect. */
  meet: Meet = () => undefined;
  /** Containers that were changed while a Service still sent requests to their pod. */
  readonly changedInService: string[] = [];
  /** The minimum number of available pods since all were. */
  least = Number.POSITIVE_INFINITY;
  readonly #kind: FleetKindUnderTest;
  readonly #nodes = new Map<string, PodOnNode>();
  #generation = 1;
  #running: RunningController | undefined;

  constructor(kind: FleetKindUnderTest) {
    this.#kind = kind;
  }

  get controller(): RunningController {
    if (this.#running === undefined) throw new Error('not started');
    return this.#running;
  }

  async start(): Promise<void> {
    for (const node of nodes) this.cluster.put(kubeResource.nodes, aNode({ metadata: { name: node } }));
    this.cluster.put(kubeResource.services, { metadata: place, spec: { selector: selector.matchLabels } });
    this.apply(template('app:1'));
    const starter: ControllerContextOptions['starter'] = {
      want: ({ workflowId }) => void this.wanted.push(workflowId),
    };
    this.#running = await runController(this.#kind.controllerOf, {
      cluster: this.cluster,
      now: () => Date.now(),
      isLeading: () => this.isLeading,
      meet: (call, about) => {
        if (!about.isDryRun) this.#meetChange(call);
        this.#meetStatus(call);
        return this.meet(call, about);
      },
      starter,
    });
  }

  /** Starts it and waits until all pods of the first revision are available. */
  async settle(): Promise<void> {
    await this.start();
    await this.until('all pods to be ready', () => this.ready().length === replicas);
    this.least = replicas;
  }

  apply(of: JsonObject, rollOut?: RollOutOrders): void {
    const before = this.cluster.look(this.#kind.resource, place) as { readonly status?: object } | undefined;
    this.cluster.put(this.#kind.resource, {
      metadata: { ...place, uid, generation: this.#generation++ },
      spec: { ...this.#kind.spec(of, selector), ...this.spec },
      ...(before?.status && { status: { ...before.status, ...(rollOut && { rollOut }) } }),
    });
  }

  /** Adds another workload for which nothing can be created. */
  poison(): void {
    const metadata = { namespace: 'shop', name: 'poisoned', uid: 'poisoned-uid', generation: 1 };
    this.cluster.put(this.#kind.resource, { metadata, spec: this.#kind.spec(template('app:1'), malformed) });
  }

  pods(): readonly Pod[] {
    const owner = { metadata: { uid } };
    return this.cluster.all(kubeResource.pods).filter((pod) => isControlledBy(owner, pod)) as unknown as readonly Pod[];
  }

  ready(): readonly Pod[] {
    const gates = parseFeatureGates();
    return this.pods().filter(
      (pod) => pod.metadata.deletionTimestamp === undefined && isPodReady(pod) && isInPlaceComplete(pod, gates),
    );
  }

  /** Names of ready pods that run this image. */
  running(image: string): readonly string[] {
    return this.ready()
      .filter(({ status }) => status?.containerStatuses?.[0]?.image === image)
      .map(({ metadata }) => metadata.name)
      .toSorted();
  }

  /** Names of pods whose spec has this image. */
  wanting(image: string): readonly string[] {
    return this.pods()
      .filter(({ spec }) => spec.containers[0]?.image === image)
      .map(({ metadata }) => metadata.name);
  }

  label(podName: string, labels: Readonly<Record<string, string | null>>): void {
    const pod = this.pods().find(({ metadata }) => metadata.name === podName);
    if (pod) this.#write(pod, { metadata: { labels } });
  }

  status(): object {
    const { status = {} } = this.cluster.look(this.#kind.resource, place) as { readonly status?: object };
    return status;
  }

  revisions(): Readonly<Record<string, string>> {
    const all = this.cluster.all<ControllerRevision>(kubeResource.controllerRevisions);
    return Object.fromEntries(
      all.map((revision) => {
        const spec = templateOf(revision)?.spec as { readonly containers: readonly { readonly image: string }[] };
        return [spec.containers[0]?.image ?? '', revision.metadata.name];
      }),
    );
  }

  /** Changes the image, and waits until the caches show its revision. Returns the name of the revision. */
  async change(image: string): Promise<string> {
    this.apply(template(image));
    return await this.until('the new revision', () => {
      const status = (this.cluster.look(this.#kind.resource, place) as { status?: { updateRevision?: string } })
        ?.status;
      const revision = this.revisions()[image];
      return isAtRevision(status?.updateRevision, revision ?? '') && revision;
    });
  }

  /** What a roll-out does: it asks which pods go next and has these carried out, until there are no more. */
  async rollOut({ life, most }: { readonly life?: PermitLife; readonly most?: number } = {}): Promise<RolledOut> {
    const play = new PlayedRollOut(() => this.#queue(), uid, life);
    const answer = await play.run(most);
    return { answer, pods: play.results.flatMap(({ pods }) => pods) };
  }

  /** Has these pods updated and no others. */
  async update(revision: string, pods: readonly [Pod, ...Pod[]]): Promise<BatchOutcome> {
    const chosen = pods.map(({ metadata }): ChosenPod => {
      const { namespace = '', name: podName, uid: podUid } = metadata;
      return { namespace, name: podName, uid: podUid, how: 'inPlace', containers: [['app']] };
    });
    const batch = batchOf(revision, chosen as [ChosenPod]);
    return await this.#queue().carryOut(uid, { number: 1, batch }, alive);
  }

  #queue() {
    const queue = this.controller.controller.fleet?.queue();
    if (queue === undefined) throw new Error('nobody leads');
    return queue;
  }

  /** Advances the nodes, a step each few milliseconds, until the result is neither empty nor false. */
  async until<Value>(what: string, probe: () => Value) {
    const step = () => {
      this.#playNodes();
      return probe();
    };
    return await waitFor(what, step, { mostPauseMs: 10 });
  }

  /** Waits until there are no more writes. */
  async rest(): Promise<void> {
    let quiet = 0;
    let writes = -1;
    await this.until('the controller to rest', () => {
      const now = this.controller.writes.length;
      quiet = now === writes ? quiet + 1 : 0;
      writes = now;
      return quiet >= 20;
    });
  }

  #playNodes(): void {
    this.#playEndpoints();
    for (const pod of this.cluster.all<Pod>(kubeResource.pods)) this.#playNode(pod);
    this.least = Math.min(this.least, this.ready().length);
  }

  /**
   * The endpoint controller: it shows pods as they were before the last step of the nodes, so it always lags behind.
   */
  #playEndpoints(): void {
    const endpoints = this.pods().map((pod) => ({
      targetRef: { uid: pod.metadata.uid },
      conditions: { ready: isPodReady(pod) },
    }));
    const metadata = { namespace: 'shop', name: 'web-1', labels: { [serviceLabel]: name } };
    this.cluster.put(kubeResource.endpointSlices, { metadata, endpoints });
  }

  /** What its CRD refuses. */
  #meetStatus({ verb, plural, body }: SeenCall): void {
    const { status } = objectOr(body as JsonObject);
    if (verb !== 'patch' || plural !== this.#kind.resource.plural || status === undefined) return;
    const after: JsonObject = { ...(this.status() as JsonObject), ...objectOr(status) };
    const missing = this.#kind.statusFields?.filter((field) => (after[field] ?? null) === null) ?? [];
    if (missing.length > 0) throw new KubeError({ status: 422, message: `status: required: ${missing}` });
  }

  #meetChange({ verb, plural, name: podName, body }: SeenCall): void {
    const { spec } = objectOr(body as JsonObject);
    if (verb !== 'patch' || plural !== 'pods' || objectOr(spec).containers === undefined) return;
    const slice = this.cluster.look(kubeResource.endpointSlices, { namespace: 'shop', name: 'web-1' });
    const pod = this.pods().find(({ metadata }) => metadata.name === podName);
    const isServing = (slice as unknown as EndpointSlice | undefined)?.endpoints?.some(
      ({ targetRef, conditions }) => targetRef?.uid === pod?.metadata.uid && conditions?.ready,
    );
    if (isServing) this.changedInService.push(podName);
  }

  #playNode(pod: Pod): void {
    const ref = { namespace: 'shop', name: pod.metadata.name };
    if (pod.metadata.deletionTimestamp !== undefined) {
      this.cluster.remove(kubeResource.pods, ref);
      return;
    }
    if (pod.spec.nodeName === undefined) {
      this.#write(pod, { spec: { nodeName: nodeOf(pod) ?? nodes[0] } });
      return;
    }
    const node = this.#nodes.get(pod.metadata.uid) ?? new PodOnNode();
    this.#nodes.set(pod.metadata.uid, node);
    for (const step of node.steps(pod, true)) {
      const live = this.cluster.look<Pod>(kubeResource.pods, ref);
      const patch = live && step.take(live, Date.now());
      if (live && patch) this.#write(live, patch);
    }
  }

  #write(pod: Pod, patch: JsonObject): void {
    const merged = strategicMerge(pod as unknown as JsonObject, patch) as unknown as KubeObject;
    this.cluster.put(kubeResource.pods, merged);
  }
}

/** What a roll-out has come to. */
interface RolledOut {
  readonly answer: Answer;
  readonly pods: readonly PodOutcome[];
}

/** The tests that every kind passes. */
export function fleetConformance(kind: FleetKindUnderTest): void {
  const started: Conformance[] = [];
  const begin = () => {
    const fleet = new Conformance(kind);
    started.push(fleet);
    return fleet;
  };
  afterEach(async () => {
    await Promise.all(started.splice(0).map(({ controller }) => controller.stop()));
  });

  const variant = kind.variant === undefined ? '' : ` (${kind.variant})`;
  describe(`${kind.resource.kind}${variant} as a fleet`, () => {
    it('keeps its number of pods, and replaces one that is gone', async () => {
      const fleet = begin();
      await fleet.settle();
      const [gone] = fleet.pods();
      fleet.cluster.remove(kubeResource.pods, { namespace: 'shop', name: gone?.metadata.name ?? '' });
      await fleet.until('the pod to be replaced', () => fleet.ready().length === replicas);
      expect(fleet.pods().map(({ metadata }) => metadata.uid)).not.toContain(gone?.metadata.uid);
      await fleet.rest();
      expect(fleet.pods()).toHaveLength(replicas);
    });

    it('disrupts nothing without a permit, and asks for a roll-out', async () => {
      const fleet = begin();
      await fleet.settle();
      await fleet.change('app:2');
      await fleet.until('the roll-out to be wanted', () => fleet.wanted.some((id) => lockOf(id) === `roll-out/${uid}`));
      await fleet.rest();
      expect([fleet.wanting('app:2'), fleet.least]).toEqual([[], replicas]);
    });

    it('updates within its budget under a permit, and changes no container before Services have let go of its pod', async () => {
      const fleet = begin();
      await fleet.settle();
      const before = fleet.pods().map(({ metadata }) => metadata.uid);
      await fleet.change('app:2');
      const rolledOut = fleet.rollOut();
      await fleet.until('all pods to be updated', () => fleet.running('app:2').length === replicas);
      const { answer, pods } = await rolledOut;
      expect(answer).toMatchObject({ kind: 'done', summary: expect.stringMatching(`^${replicas} of `) });
      expect(pods.map(({ pod }) => pod).toSorted()).toEqual(fleet.running('app:2'));
      expect(pods.every(({ how, at, ms, why }) => how === 'inPlace' && at && ms !== undefined && !why)).toBe(true);
      expect(fleet.changedInService).toEqual([]);
      expect(fleet.least).toBeGreaterThanOrEqual(replicas - 1);
      expect(fleet.pods().map(({ metadata }) => metadata.uid)).toEqual(before);
      for (const { status } of fleet.pods()) expect(status?.containerStatuses?.[0]?.restartCount).toBe(1);
    });

    it('begins nothing more once the permit has ended, and finishes what has begun', async () => {
      const fleet = begin();
      await fleet.settle();
      await fleet.change('app:2');
      const end = new AbortController();
      const verdict = fleet.rollOut({ life: { isAlive: () => !end.signal.aborted, ended: end.signal } });
      const lost = expect(verdict).rejects.toThrow('the activity has ended');
      await fleet.until('a pod to be on its way', () => fleet.wanting('app:2').length > 0);
      end.abort(new Error('the activity has ended'));
      await lost;
      await fleet.until('what has begun to be finished', () => fleet.ready().length === replicas);
      await fleet.rest();
      expect(fleet.running('app:2')).toHaveLength(1);
    });

    it('P-7: gives back a pod whose update is refused, never drains it again, and updates it once a dry run is accepted', async () => {
      const fleet = begin();
      await fleet.settle();
      await fleet.change('app:2');
      let isRefusing = true;
      const refuses = lastUpdate();
      fleet.meet = (call) => {
        if (isRefusing && refuses(call)) throw refusal();
      };
      const rolledOut = fleet.rollOut();
      const status = () => fleet.status() as { readonly waitingFor?: WaitingFor };
      await fleet.until('the wait to be reported', () => status().waitingFor?.reason === 'CannotUpdate');
      const [left] = fleet.wanting('app:1');
      expect(status().waitingFor).toMatchObject({
        blockedBy: [`pod/${left}`],
        unblock: expect.stringContaining('denied the request: frozen'),
      });
      await fleet.until('the pod to be in service', () => fleet.ready().length === replicas);
      const wasDrained = fleet.controller.writes.length;
      await fleet.rest();
      expect(fleet.controller.writes.slice(wasDrained).filter(({ plural }) => plural === 'pods')).toEqual([]);
      isRefusing = false;
      fleet.apply(template('app:2')); // somebody edits it
      await fleet.until('all pods to be updated', () => fleet.running('app:2').length === replicas);
      const { answer, pods } = await rolledOut;
      expect(answer.kind).toBe('done');
      expect(pods.filter(({ why }) => why !== undefined)).toEqual([
        { pod: left, how: 'inPlace', why: expect.stringMatching(/^not now: refused: .*frozen/) },
      ]);
      expect(pods.at(-1)).toMatchObject({ pod: left, ms: expect.any(Number) });
    });

    const itWithHook = kind.hasNoUpdateHook ? undefined : it;
    itWithHook?.('P-7: lets go of a pod that a hook holds for an update that is refused', async () => {
      const fleet = begin();
      const mark = 'example.com/in-use';
      fleet.spec = { lifecycle: { inPlaceUpdate: { labelsHandler: { [mark]: 'true' } } } };
      let left: string | undefined;
      const states = new Set<string | undefined>();
      const hook = () => {
        for (const { metadata } of fleet.pods()) {
          const { [lifecycleMark.state]: state, [mark]: isInUse } = metadata.labels ?? {};
          if (metadata.name === left) states.add(state);
          const wanted = state === 'PreparingUpdate' ? null : 'true';
          if ((isInUse ?? null) !== wanted) fleet.label(metadata.name, { [mark]: wanted });
        }
      };
      await fleet.settle();
      await fleet.until('the pods to be in use', () => {
        hook();
        return fleet.pods().every(({ metadata }) => metadata.labels?.[mark] === 'true');
      });
      await fleet.change('app:2');
      let isRefusing = true;
      const refuses = lastUpdate();
      fleet.meet = (call, { isDryRun }) => {
        if (isDryRun || !refuses(call)) return; // dry runs are accepted
        left = call.name;
        if (isRefusing) throw refusal();
      };
      const rolledOut = fleet.rollOut();
      await fleet.until('the pod to be let go', () => {
        hook();
        return states.has('PreparingUpdate') && fleet.ready().length === replicas;
      });
      isRefusing = false;
      await fleet.until('all pods to be updated', () => {
        hook();
        return fleet.running('app:2').length === replicas;
      });
      const { pods } = await rolledOut;
      const whys = pods.flatMap(({ pod, why }) => (why === undefined ? [] : [`${pod}: ${why}`]));
      expect(whys.length).toBeGreaterThan(0);
      for (const why of whys) expect(why).toMatch(new RegExp(`^${left}: not now: refused: `));
    });

    it('lets only those pods begin that its permit names', async () => {
      const fleet = begin();
      await fleet.settle();
      const [chosen] = fleet.pods();
      const revision = await fleet.change('app:2');
      if (chosen === undefined) throw new Error('there is no pod');
      const verdict = fleet.update(revision, [chosen]);
      await fleet.until('the pod to be updated', () => fleet.running('app:2').length === 1);
      expect(await verdict).toMatchObject({ pods: [{ pod: chosen.metadata.name, how: 'inPlace' }] });
      expect(fleet.wanting('app:2')).toEqual([chosen.metadata.name]);
    });

    it('writes nothing once it does not lead any more', async () => {
      const fleet = begin();
      await fleet.settle();
      await fleet.rest();
      fleet.isLeading = false;
      const before = fleet.controller.writes.length;
      const [gone] = fleet.pods();
      fleet.cluster.remove(kubeResource.pods, { namespace: 'shop', name: gone?.metadata.name ?? '' });
      fleet.apply(template('app:2'));
      await fleet.rest();
      expect(fleet.controller.writes.slice(before)).toEqual([]);
    });

    it('makes no pod twice when the answer to a creation is lost', async () => {
      const fleet = begin();
      let lost = 0;
      fleet.meet = ({ verb, plural, body }) => {
        if (verb !== 'create' || plural !== 'pods' || lost > 0) return;
        lost += 1;
        fleet.cluster.put(kubeResource.pods, body as Pod);
        throw new KubeError({ status: 0, message: 'no answer within 30 s' });
      };
      await fleet.settle();
      await fleet.rest();
      expect([lost, fleet.pods().length]).toEqual([1, replicas]);
    });

    it.each([
      ['is controlled by another object', { ownerReferences: [stranger] }],
      ['it does not select', { labels: { app: 'db' } }],
    ])('CS-83: gives its revision another name where an equal one of the name %s', async (_, metadata) => {
      const fleet = begin();
      const asked: string[] = [];
      fleet.meet = ({ verb, plural, name: revision, body }) => {
        if (verb !== 'create' || plural !== 'controllerrevisions') return;
        asked.push(revision);
        const taken = body as ControllerRevision;
        if (asked.length > 2) return;
        fleet.cluster.put(kubeResource.controllerRevisions, { ...taken, metadata: { ...taken.metadata, ...metadata } });
      };
      await fleet.settle();
      await fleet.rest();
      expect([asked.length, new Set(asked).size]).toEqual([3, 3]);
    });

    it('takes pods back under an undo, and only those that have changed', async () => {
      const fleet = begin();
      await fleet.settle();
      const revision = await fleet.change('app:2');
      const updated = fleet.rollOut({ most: 1 });
      await fleet.until('the first pod to be updated', () => fleet.running('app:2').length === 1);
      await updated;
      const { 'app:1': old = '' } = fleet.revisions();
      const by = { by: 'ann', at: '2026-11-21T06:00:00Z' };
      fleet.apply(template('app:2'), { version: 1, revision, undo: { to: old, ...by } });
      await fleet.rest();
      const undone = fleet.rollOut();
      await fleet.until('the pod to be taken back', () => fleet.running('app:1').length === replicas);
      expect(await undone).toMatchObject({ answer: { kind: 'done' }, pods: [{}] });
      const restarts = fleet.pods().map(({ status }) => status?.containerStatuses?.[0]?.restartCount ?? 0);
      expect(restarts.toSorted()).toEqual([0, 0, 2]);
    });

    it('leaves out the pods that an operator skips', async () => {
      const fleet = begin();
      await fleet.settle();
      const [left] = fleet.pods().map(({ metadata }) => metadata.name);
      const revision = await fleet.change('app:2');
      fleet.apply(template('app:2'), { version: 1, revision, skip: [left ?? ''] });
      await fleet.rest();
      const rolledOut = fleet.rollOut();
      await fleet.until('the others to be updated', () => fleet.running('app:2').length === replicas - 1);
      expect(await rolledOut).toMatchObject({ answer: { kind: 'done' }, pods: [{}, {}] });
      await fleet.rest();
      expect(fleet.wanting('app:1')).toEqual([left]);
    });

    it(`${kind.adoptable ? 'adopts' : 'leaves alone'} pods that nobody controls`, async () => {
      const fleet = begin();
      const orphan = { namespace: 'shop', name: kind.adoptable ?? 'web-stray' };
      fleet.cluster.put(kubeResource.pods, {
        spec: { ...objectOr(template('app:1').spec), nodeName: nodes[0] },
        metadata: { ...orphan, labels: selector.matchLabels },
      });
      await fleet.settle();
      await fleet.rest();
      const names = fleet.pods().map(({ metadata }) => metadata.name);
      expect([names.length, names.includes(orphan.name)]).toEqual([replicas, kind.adoptable !== undefined]);
    });

    it('is not held up by another workload of which nothing can be made', async () => {
      const fleet = begin();
      fleet.poison();
      await fleet.settle();
      await fleet.change('app:2');
      const rolledOut = fleet.rollOut();
      await fleet.until('all pods to be updated', () => fleet.running('app:2').length === replicas);
      expect((await rolledOut).answer.kind).toBe('done');
    });
  });
}
