import { describe, expect, it } from '@jest/globals';
import { ConfigError, HelpRequested, parseConfig } from '../../process/config.ts';
import { ignoredFlags, options } from '../../process/options.ts';

const node = { NODE_NAME: 'node-1' };

function refusal(role: Parameters<typeof parseConfig>[0], argv: readonly string[], env = {}): string {
  try {
    parseConfig(role, argv, env);
  } catch (error) {
    if (error instanceof ConfigError) return error.message;
    throw error;
  }
  return 'accepted';
}

describe('parseConfig', () => {
  it('gives the defaults of the manuals', () => {
    expect(parseConfig('watcher', [], {})).toMatchObject({
      namespace: '',
      podNamespace: 'kruise-system',
      temporal: { address: '127.0.0.1:7233', namespace: 'default' },
      metricsAddress: ':8080',
      healthProbeAddress: ':8000',
      leaderElection: { enabled: true, namespace: 'kruise-system', id: 'windlass-watcher' },
      kubeQps: 200,
      kubeBurst: 400,
      logLevel: 'info',
      webhook: {
        port: 9876,
        secretName: 'kruise-webhook-certs',
        serviceName: 'kruise-webhook-service',
        renewBeforeSeconds: 180 * 86_400,
        certificateLifetimeSeconds: 3650 * 86_400,
        initializeTimeoutSeconds: 60,
      },
      fullPassSeconds: 60,
      engineSilentSeconds: 60,
      manageWorkerDeployment: true,
      engineStuckSeconds: 300,
      ignoredFlags: [],
    });
  });

  it('leaves absent options out', () => {
    const config = parseConfig('watcher', [], {});
    expect(config).not.toHaveProperty('kubeconfig');
    expect(config.temporal).not.toHaveProperty('tls');
    expect(config.webhook).not.toHaveProperty('host');
  });

  it('lets a second watcher lead within 15 s by default', () => {
    const { leaseDurationSeconds, retryPeriodSeconds, renewDeadlineSeconds } = parseConfig(
      'watcher',
      [],
      {},
    ).leaderElection;
    expect(leaseDurationSeconds + retryPeriodSeconds).toBeLessThan(15);
    expect(renewDeadlineSeconds).toBeLessThan(leaseDurationSeconds);
  });

  it('serves everything of a daemon at one address, and asks the API server little', () => {
    const config = parseConfig('daemon', ['--addr=127.0.0.1:1'], node);
    expect(config).toMatchObject({ metricsAddress: '127.0.0.1:1', healthProbeAddress: '127.0.0.1:1', kubeQps: 20 });
    expect(config.daemon).toMatchObject({ nodeName: 'node-1', socketLocation: '/hostvarrun', socketFile: '' });
  });

  it('finds credential plugins by the names of OpenKruise and of the kubelet; a file that is named has to exist', () => {
    const credentials = (...argv: readonly string[]) => parseConfig('daemon', argv, node).daemon.credentials;
    expect(credentials()).toEqual({
      pluginConfig: { file: '/kruise/CredentialProviderPlugin.yaml', mustExist: false },
      pluginFolder: '/kruise/plugins',
      pluginEnvironment: node,
    });
    expect(credentials('--plugin-config-file=/a.yaml', '--plugin-bin-dir=/a', '--node-docker-config=/c.json')).toEqual({
      pluginConfig: { file: '/a.yaml', mustExist: true },
      pluginFolder: '/a',
      pluginEnvironment: node,
      dockerConfigFile: '/c.json',
    });
    const kubelet = ['--image-credential-provider-config=/k.yaml', '--image-credential-provider-bin-dir=/k'];
    expect(credentials(...kubelet)).toEqual({
      pluginConfig: { file: '/k.yaml', mustExist: true },
      pluginFolder: '/k',
      pluginEnvironment: node,
    });
  });

  it('requires a daemon to know its node, and names the variables that tell it', () => {
    expect(refusal('daemon', [])).toBe('--node-name is required (WINDLASS_NODE_NAME, NODE_NAME)');
  });

  it('prefers the flag to the variable of Windlass, and that to the name known from Kubernetes', () => {
    const env = { KUBECONFIG: '/from/kubernetes', WINDLASS_KUBECONFIG: '/from/windlass' };
    expect(parseConfig('worker', ['--kubeconfig', '/from/flag'], env).kubeconfig).toBe('/from/flag');
    expect(parseConfig('worker', [], env).kubeconfig).toBe('/from/windlass');
    expect(parseConfig('worker', [], { KUBECONFIG: '/from/kubernetes' }).kubeconfig).toBe('/from/kubernetes');
  });

  it('treats an empty variable as absent', () => {
    expect(parseConfig('webhook', [], { WEBHOOK_HOST: '', WEBHOOK_PORT: '' }).webhook).toMatchObject({ port: 9876 });
  });

  it('takes the names of OpenKruise for admission', () => {
    const env = {
      WEBHOOK_HOST: '10.88.0.1',
      WEBHOOK_PORT: '1234',
      SECRET_NAME: 'secret',
      SERVICE_NAME: 'service',
      CERTS_RENEW_BEFORE: '2m',
      POD_NAMESPACE: 'elsewhere',
    };
    expect(parseConfig('webhook', [], env)).toMatchObject({
      podNamespace: 'elsewhere',
      webhook: {
        host: '10.88.0.1',
        port: 1234,
        secretName: 'secret',
        serviceName: 'service',
        renewBeforeSeconds: 60 * 86_400,
      },
    });
  });

  it('looks for the lease where Windlass lives unless told otherwise', () => {
    const env = { POD_NAMESPACE: 'elsewhere' };
    expect(parseConfig('watcher', [], env).leaderElection.namespace).toBe('elsewhere');
    expect(parseConfig('watcher', ['--leader-election-namespace=here'], env).leaderElection.namespace).toBe('here');
  });

  it.each([
    ['--leader-election-lease-duration=1m30s', { leaseDurationSeconds: 90 }],
    ['--leader-election-retry-period=250ms', { retryPeriodSeconds: 0.25 }],
    ['--enable-leader-election=false', { enabled: false }],
    ['--enable-leader-election', { enabled: true }],
  ])('reads %s', (flag, expected) => {
    expect(parseConfig('watcher', [flag], {}).leaderElection).toMatchObject(expected);
  });

  it('speaks TLS to Temporal when asked to or when given a file for it', () => {
    expect(parseConfig('worker', ['--temporal-tls'], {}).temporal.tls).toEqual({});
    expect(parseConfig('worker', ['--temporal-tls-ca-file=/ca'], {}).temporal.tls).toEqual({ caFile: '/ca' });
  });

  it('accepts what means nothing here, and says so', () => {
    const argv = ['--cloneset-workers=3', '--sync-period', '0', '--enable-pprof', '--webhook-initialize-timeout=5s'];
    expect(parseConfig('worker', argv, {}).ignoredFlags.toSorted()).toEqual([
      'cloneset-workers',
      'enable-pprof',
      'sync-period',
      'webhook-initialize-timeout',
    ]);
  });

  it.each<[string, readonly string[], Record<string, string>, string]>([
    ['an unknown flag', ['--cloneset-worker=3'], {}, "unknown option '--cloneset-worker=3'"],
    ['a word that is no flag', ['start'], {}, 'too many arguments'],
    ['a port that is none', [], { WEBHOOK_PORT: '66000' }, 'WEBHOOK_PORT="66000": expects a port from 0'],
    ['a flag without a value', ['--log-level'], {}, '--log-level="true": expects trace, debug, info, warn, error'],
    ['an address without a port', ['--metrics-addr=here'], {}, '--metrics-addr="here": expects host:port or :port'],
    ['a number without a unit', ['--full-pass-period=60'], {}, '--full-pass-period="60": expects a duration'],
    ['a duration of nothing', ['--full-pass-period=0s'], {}, '--full-pass-period="0s": expects a duration'],
    ['an age without a unit', [], { CERTS_RENEW_BEFORE: '180' }, 'CERTS_RENEW_BEFORE="180": expects an integer with'],
    ['a lock of another kind', ['--leader-election-resource-lock=configmaps'], {}, 'expects leases'],
    ['several kubeconfigs', [], { KUBECONFIG: '/a:/b' }, 'KUBECONFIG="/a:/b": expects the path of one file'],
    ['a gate that does not exist', ['--feature-gates=Levitation=true'], {}, '--feature-gates: '],
    [
      'a renewal later than the lease ends',
      ['--leader-election-renew-deadline=20s'],
      {},
      '--leader-election-renew-deadline="20s": expects a value shorter than --leader-election-lease-duration (12s)',
    ],
    ['attempts too far apart', ['--leader-election-retry-period=5s'], {}, 'expects a value of at most half of'],
    [
      'half a second of a lease',
      ['--leader-election-lease-duration=12.5s'],
      {},
      'expects a value that is an integer number of seconds',
    ],
    [
      'certificates that are renewed at once',
      ['--webhook-certs-lifetime=1d'],
      {},
      'expects a value shorter than --webhook-certs-lifetime (86400s)',
    ],
    ['a certificate without its key', ['--temporal-tls-cert-file=/c'], {}, '--temporal-tls-key-file: one was given'],
  ])('refuses %s and names it', (_what, argv, env, message) => {
    expect(refusal('all', argv, env)).toContain(message);
  });

  it('prints every option of the role, and no other, with --help', () => {
    expect(() => parseConfig('daemon', ['--help'], {})).toThrow(HelpRequested);
    expect(() => parseConfig('daemon', ['--help'], {})).toThrow(/--socket-location[\s\S]*\[\/hostvarrun\]/);
    expect(() => parseConfig('daemon', ['-h'], {})).not.toThrow(/--webhook-port/);
  });

  it('H3: takes the authorities of the callers of admission from a flag or the environment, and none unless given', () => {
    expect(parseConfig('webhook', [], {}).webhook).not.toHaveProperty('clientCaFile');
    expect(parseConfig('webhook', ['--client-ca=/pki/a.pem'], {}).webhook.clientCaFile).toBe('/pki/a.pem');
    expect(parseConfig('all', [], { WINDLASS_CLIENT_CA: '/pki/b.pem' }).webhook.clientCaFile).toBe('/pki/b.pem');
  });

  it('FG-5: turns the pod webhook off for a list of kinds without SidecarSet, unless the gate is named', () => {
    const old = { CUSTOM_RESOURCE_ENABLE: 'CloneSet' };
    const gate = (argv: readonly string[], env: Record<string, string>) =>
      parseConfig('webhook', argv, env).featureGates.PodWebhook;
    expect(gate([], {})).toBe(true);
    expect(gate([], old)).toBe(false);
    expect(gate([], { CUSTOM_RESOURCE_ENABLE: 'CloneSet,SidecarSet' })).toBe(true);
    expect(gate(['--feature-gates=PodWebhook=true'], old)).toBe(true);
  });
});

describe('options', () => {
  const table = Object.entries(options);

  it.each(table)('%s has a default that its own parser accepts', (_name, option) => {
    if (option.default !== undefined) expect(option.parse(option.default)).toBeDefined();
  });

  it('names every flag once', () => {
    const flags = [...table.map(([, option]) => option.flag), ...ignoredFlags];
    expect(flags.filter((flag, index) => flags.indexOf(flag) !== index)).toEqual([]);
  });
});
