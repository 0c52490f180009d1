#!/usr/bin/env bash
# Makes the secrets that the parts of the stack share, each in the volume of whoever holds it.
#
# Runs at every start and changes nothing that is there. Unless COUNTERSIGN_TRIAL=no it also plays the people of a
# trial: an issuer of tokens and two signers, whose private keys lie in the volume "people" and nowhere else.
set -euo pipefail
umask 077
cd /secrets

countersign keys init gateway
install -m 0600 gateway/signer-api-key gateway/callback-secret signer/
install -m 0600 gateway/rail-api-key rail/
[ -s gateway/checkpoint-key.pub ] || countersign keys checkpoint gateway/checkpoint-key

# The volume is there, and so writable, only where PostgreSQL is.
if [ -w db ]; then
    if [ ! -s db/password ]; then
        head -c 24 /dev/urandom | base64 | tr '+/' '-_' | tr -d '\n' >db/password.new
        # The database runs as another user; the volume is its own.
        chmod 0444 db/password.new
        mv db/password.new db/password
    fi
    printf 'postgres://countersign:%s@db:5432/countersign' "$(cat db/password)" >gateway/database-url
fi

if [ "${COUNTERSIGN_TRIAL:-yes}" = no ]; then
    exit 0
fi
countersign keys issuer people/issuer.pem
install -m 0600 people/issuer.jwks.json gateway/jwks.json
install -m 0600 gateway/rail-api-key people/
for signer in finance-1 finance-2; do
    [ -s "people/$signer.pub.pem" ] || countersign keys new "people/$signer.pem"
    install -m 0644 "people/$signer.pub.pem" signer/
done
