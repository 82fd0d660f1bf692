import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import {
  type FeatureGate,
  FeatureGateError,
  featureGateNames,
  featureGateTable,
  hasNoEffect,
  parseFeatureGates,
} from '../../api/feature-gates.ts';

/** The gates that are off although the text would turn everything on. */
function offWith(text: string): readonly FeatureGate[] {
  const everything = featureGateNames.map((gate) => `${gate}=true`).join(',');
  const gates = parseFeatureGates(`${everything},${text}`);
  return featureGateNames.filter((gate) => !gates[gate]).toSorted();
}

describe('parseFeatureGates', () => {
  it('has the defaults of the manuals', () => {
    const gates = parseFeatureGates('');
    expect(featureGateNames).toHaveLength(36);
    expect(featureGateNames.filter((gate) => gates[gate])).toEqual([
      'PodWebhook',
      'KruiseDaemon',
      'DaemonWatchingPod',
      'WorkloadSpread',
      'PodUnavailableBudgetDeleteGate',
      'InPlaceUpdateEnvFromMetadata',
      'StatefulSetAutoDeletePVC',
      'PodIndexLabel',
      'PodProbeMarkerGate',
    ]);
  });

  it('reads values as Go does, with blanks and empty parts', () => {
    const gates = parseFeatureGates(' CloneSetShortHash = T ,, PodIndexLabel=0,');
    expect(gates).toMatchObject({ CloneSetShortHash: true, PodIndexLabel: false });
  });

  it('lets the last of several values count', () => {
    expect(parseFeatureGates('PodIndexLabel=false,PodIndexLabel=true').PodIndexLabel).toBe(true);
  });

  it.each([
    ['Nonsense=true', 'unknown feature gate "Nonsense"'],
    ['SidecarTermnator=true', 'unknown feature gate "SidecarTermnator", did you mean "SidecarTerminator"?'],
    ['imagepulljob=true', 'unknown feature gate "imagepulljob", did you mean "ImagePullJobGate"?'],
    ['AllAlphas=true', 'unknown feature gate "AllAlphas", did you mean "AllAlpha"?'],
    [
      'ForceDeleteTimeoutExpectationFeatureGate=true',
      'unknown feature gate "ForceDeleteTimeoutExpectationFeatureGate", did you mean "ForceDeleteTimeoutExpectationGate"?',
    ],
    ['toString=true', 'unknown feature gate "toString"'],
    ['PodWebhook', 'feature gate "PodWebhook" must be true or false, not ""'],
    ['PodWebhook=yes', 'feature gate "PodWebhook" must be true or false, not "yes"'],
    ['PodWebhook=true=false', 'feature gate "PodWebhook" must be true or false, not "true=false"'],
    ['=true', 'unknown feature gate ""'],
    ['AllAlpha=maybe', 'feature gate "AllAlpha" must be true or false, not "maybe"'],
    [
      'EnhancedLivenessProbeGate=true',
      'unknown feature gate "EnhancedLivenessProbeGate", did you mean "EnhancedLivenessProbe"?',
    ],
  ])('refuses %s and names the gate', (text, message) => {
    expect(() => parseFeatureGates(text)).toThrow(new FeatureGateError(message));
  });

  it('never throws anything but a FeatureGateError', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        try {
          parseFeatureGates(text);
        } catch (error) {
          expect(error).toBeInstanceOf(FeatureGateError);
        }
      }),
    );
  });

  it('FG-1: without PodWebhook what depends on it is off, even if it is named', () => {
    expect(offWith('PodWebhook=false')).toEqual([
      'EnablePodProbeMarkerOnServerless',
      'EnhancedLivenessProbe',
      'KruisePodReadinessGate',
      'PodUnavailableBudgetDeleteGate',
      'PodUnavailableBudgetUpdateGate',
      'PodWebhook',
      'SidecarSetPatchPodMetadataDefaultsAllowed',
      'WorkloadSpread',
    ]);
  });

  it('FG-2: without KruiseDaemon what depends on it is off, even if it is named', () => {
    expect(offWith('KruiseDaemon=false')).toEqual([
      'DaemonWatchingPod',
      'EnhancedLivenessProbe',
      'ImagePullJobGate',
      'InPlaceUpdateEnvFromMetadata',
      'KruiseDaemon',
      'PodProbeMarkerGate',
      'PreDownloadImageForDaemonSetUpdate',
      'PreDownloadImageForInPlaceUpdate',
      'SidecarTerminator',
    ]);
  });

  it('FG-3: pulling ahead switches image pull jobs on, even if they are named off', () => {
    const gates = parseFeatureGates('PreDownloadImageForInPlaceUpdate=true,ImagePullJobGate=false');
    expect(gates.ImagePullJobGate).toBe(true);
    expect(parseFeatureGates('PreDownloadImageForDaemonSetUpdate=true').ImagePullJobGate).toBe(true);
    expect(parseFeatureGates('').ImagePullJobGate).toBe(false);
  });

  it('FG-3: without deletion protection the one of CRDs is off, too', () => {
    expect(offWith('ResourcesDeletionProtection=false')).toEqual([
      'DeletionProtectionForCRDCascadingGate',
      'ResourcesDeletionProtection',
    ]);
  });

  it('FG-5: CUSTOM_RESOURCE_ENABLE without SidecarSet switches PodWebhook off by default only', () => {
    expect(parseFeatureGates('', 'CloneSet,DaemonSet').PodWebhook).toBe(false);
    expect(parseFeatureGates('', 'CloneSet, SidecarSet').PodWebhook).toBe(true);
    expect(parseFeatureGates('', '').PodWebhook).toBe(true);
    expect(parseFeatureGates('PodWebhook=true', 'CloneSet').PodWebhook).toBe(true);
    expect(parseFeatureGates('', 'CloneSet').WorkloadSpread).toBe(false);
  });

  it('FG-23: AllAlpha switches every alpha gate but those of the installation', () => {
    const gates = parseFeatureGates('AllAlpha=true');
    const alpha = featureGateNames.filter((gate) => featureGateTable[gate].stage === 'Alpha');
    // This one needs a gate of stage Beta that is off.
    const off = alpha.filter((gate) => !gates[gate] && gate !== 'DeletionProtectionForCRDCascadingGate');
    expect(off).toEqual(['TemplateNoDefaults', 'EnableExternalCerts']);
    expect(parseFeatureGates('AllAlpha=true,EnableExternalCerts=true').EnableExternalCerts).toBe(true);
  });

  it('lets a gate that is named win over AllBeta and AllAlpha, wherever it stands', () => {
    const gates = parseFeatureGates('WorkloadSpread=true,AllBeta=false,AllAlpha=true,CloneSetShortHash=false');
    expect(gates).toMatchObject({ PodIndexLabel: false, CloneSetShortHash: false, PreparingUpdateAsUpdate: true });
    // WorkloadSpread needs PodWebhook, which AllBeta has switched off.
    expect(gates.WorkloadSpread).toBe(false);
  });
});

describe('gates without effect', () => {
  /** They are read, and what they switch on is not there yet. */
  const early: readonly FeatureGate[] = [
    'PodUnavailableBudgetDeleteGate',
    'PodUnavailableBudgetUpdateGate',
    'InPlacePodVerticalScaling',
  ];

  it('are those that no code of a kind that is served reads', () => {
    const root = join(import.meta.dirname, '../..');
    const files = globSync('{api,plan,workflows,activities,watcher,webhook,daemon,workers,process}/**/*.ts', {
      cwd: root,
    });
    const code = files
      .filter((file) => file !== 'api/feature-gates.ts')
      .map((file) => readFileSync(join(root, file), 'utf8'))
      .join('');
    const unread = featureGateNames.filter((gate) => !new RegExp(`\\b${gate}\\b`).test(code));
    expect(featureGateNames.filter(hasNoEffect)).toEqual(
      featureGateNames.filter((gate) => unread.includes(gate) || early.includes(gate)),
    );
  });
});
