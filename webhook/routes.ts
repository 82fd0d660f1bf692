import { installation } from '../api/core/well-known.ts';
import { deletionOnlyKinds } from '../api/deletion-protection.ts';
import type { FeatureGates } from '../api/feature-gates.ts';
import type { KindName } from '../api/kinds.ts';
import { podWebhook, webhooks } from '../api/webhooks.ts';
import { cloneSetRules } from './cloneset.ts';
import { type RecreateTrust, reviewRecreateRequest } from './container-recreate-request.ts';
import { conversions } from './conversions.ts';
import { conversionRoute } from './convert.ts';
import { daemonSetRules } from './daemon-set.ts';
import { type DeletionProtection, reviewDeletion } from './deletion-protection.ts';
import { reviewImageListPullJob, reviewImagePullJob } from './image-pull-job.ts';
import { reviewNodeImage } from './node-image.ts';
import { type PodSurroundings, podChain, reviewPod } from './pod.ts';
import { reviewPodProbeMarker } from './pod-probe-marker.ts';
import { warningOfAnnotations } from './review/annotation-warnings.ts';
import type { SidecarSource } from './review/followed-sidecar-sets.ts';
import type { LookUps } from './review/look-ups.ts';
import type { PodTrials } from './review/pod-trial.ts';
import { admissionRoute, namespaceInText, type Review, type ReviewOptions } from './review/review.ts';
import type { SidecarSetLookUps } from './review/sidecar-set-look-ups.ts';
import type { AdmissionServerOptions } from './server/server.ts';
import { reviewSidecarSet, reviewSidecarSetDefaults } from './sidecar-set.ts';
import { statefulSetRules } from './stateful-set.ts';
import { reviewWorkload, reviewWorkloadDefaults, type WorkloadRules } from './workload.ts';

/** Dependencies of reviews. */
export interface ReviewMeans {
  readonly gates: FeatureGates;
  readonly lookUps: LookUps;
  readonly sidecarSets: SidecarSetLookUps;
  readonly trials: PodTrials;
  readonly trust: RecreateTrust;
  readonly protection: DeletionProtection;
  /** The PodProbeMarkers of a namespace. Absent: none. */
  readonly markers?: PodSurroundings['markers'];
  /** The SidecarSets of new pods. Absent: none. */
  readonly sidecars?: SidecarSource;
}

type ReviewOf = (means: ReviewMeans) => Review;

/** A review for each webhook that a kind registers. */
type ReviewsOf<Registered> = Registered extends 'none' ? 'none' : { readonly [Type in keyof Registered]: ReviewOf };

type Reviews = { readonly [Name in KindName]: ReviewsOf<(typeof webhooks)[Name]> };

/** The reviews of each kind: the compiler requires one for each webhook in `api/webhooks.ts`. */
const reviews: Reviews = {
  ContainerRecreateRequest: {
    mutating: ({ gates, lookUps, trust }) => reviewRecreateRequest(gates, lookUps, trust),
  },
  CloneSet: reviewsOfWorkload(cloneSetRules),
  PodProbeMarker: { validating: ({ gates }) => reviewPodProbeMarker(gates) },
  NodePodProbe: 'none',
  ImagePullJob: { mutating: ({ gates }) => reviewImagePullJob(gates) },
  ImageListPullJob: { mutating: ({ gates }) => reviewImageListPullJob(gates) },
  NodeImage: { mutating: ({ gates }) => reviewNodeImage(gates) },
  SidecarSet: {
    mutating: () => reviewSidecarSetDefaults(),
    validating: ({ gates, sidecarSets, trials }) => reviewSidecarSet({ gates, lookUps: sidecarSets, trials }),
  },
  StatefulSet: reviewsOfWorkload(statefulSetRules),
  DaemonSet: reviewsOfWorkload(daemonSetRules),
};

function reviewsOfWorkload(rules: WorkloadRules): { readonly mutating: ReviewOf; readonly validating: ReviewOf } {
  return {
    mutating: ({ gates }) => reviewWorkloadDefaults(rules, gates),
    validating: ({ gates, lookUps, trials, protection }) =>
      reviewWorkload(rules, {
        ...{ gates, lookUps, trials },
        ...(rules.protection && { deletion: reviewDeletion(rules.protection, protection) }),
      }),
  };
}

/** What reviews and conversions report. */
export interface RouteReports extends Required<Pick<ReviewOptions, 'onRefusal' | 'onFailure'>> {
  readonly onConversionWarning: (warning: string) => void;
}

/** Every path that admission serves. */
export function routesOf(
  means: ReviewMeans,
  { onRefusal, onFailure, onConversionWarning }: RouteReports,
): AdmissionServerOptions['routes'] {
  const ofKinds = reviewsByPath(means).map(([path, review]) => [
    path,
    { answer: admissionRoute(review, { whenFailed: 'refuse', onRefusal, onFailure }), shareOf: namespaceInText },
  ]);
  // `protection` reports refused deletions.
  const ofDeletions = deletionOnlyKinds.map((kind) => [
    kind.path,
    {
      answer: admissionRoute(reviewDeletion(kind, means.protection), { whenFailed: 'refuse', onFailure }),
      shareOf: namespaceInText,
    },
  ]);
  return {
    ...Object.fromEntries([...ofKinds, ...ofDeletions]),
    // A pod must not fail to start because of Windlass; a missed change is reported in the status of its workload. That a
    // pod does not start without its sidecars is left to a policy of the API server (deploy/rbac-gates/PodWebhook.yaml).
    [podWebhook.path]: {
      answer: admissionRoute(warningOfAnnotations(reviewPod(means.gates, podChain, means.markers, means.sidecars)), {
        whenFailed: 'leaveToFailurePolicy',
        onRefusal,
        onFailure,
      }),
      isImmediate: true,
    },
    [installation.conversionPath]: {
      answer: conversionRoute(conversions, onConversionWarning),
      // A list of objects is converted in one review.
      bodyBytes: 8 * 1024 * 1024,
      // The API server has no client certificate for conversion webhooks; the answer depends on the request alone.
      anonymous: true,
      isImmediate: true,
    },
  };
}

/** The review of each webhook path of a kind. */
function reviewsByPath(means: ReviewMeans): readonly (readonly [path: string, review: Review])[] {
  return Object.entries(webhooks).flatMap(([kind, registered]) => {
    const ofKind = reviews[kind as KindName];
    if (registered === 'none' || ofKind === 'none') return [];
    const makers: Readonly<Record<string, ReviewOf>> = ofKind;
    return Object.entries(registered).flatMap(([type, { path }], index) => {
      const review = makers[type]?.(means);
      if (review === undefined) return [];
      // once for each request, also where a kind has two webhooks
      return [[path, index === 0 ? warningOfAnnotations(review) : review] as const];
    });
  });
}
